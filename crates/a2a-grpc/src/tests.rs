use super::*;

#[test]
fn the_service_has_its_methods() {
    assert_eq!(Method::all().count(), 11);
}
