//! The mark of a part whose content is in the item of an earlier part of the same message.

use serde_json::json;

use crate::wire::Fields;

const TYPE: &str = "windlass.continuation";

/// The provider item of such a part. It is never sent.
pub(super) fn of_item(item: &Fields, content_index: usize) -> String {
    json!({"type": TYPE, "item_id": item.text("id"), "content_index": content_index}).to_string()
}

/// The id of the item that a mark refers to, empty if the item has none. `None` if it is no mark.
pub(super) fn item_id(mark: &Fields) -> Option<String> {
    (mark.text("type").as_deref() == Some(TYPE)).then(|| mark.text("item_id").unwrap_or_default())
}
