//! A hash of texts that are compared by it first. It is stored, so it never changes.

use rusqlite::{Connection, functions::FunctionFlags};

/// FNV-1a with 32 bits. Different texts may have one hash.
pub fn short_hash(text: &str) -> i32 {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed()
}

/// Makes the hash known to SQL, for migrations. No table, index or view may use it: other programs open the file, too.
pub(crate) fn define(sql: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    sql.create_scalar_function("short_hash", 1, flags, |call| Ok(short_hash(&call.get::<String>(0)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_and_this_build_agree_and_nothing_has_changed() {
        let sql = Connection::open_in_memory().unwrap();
        define(&sql).unwrap();
        for (text, hash) in [("", -2_128_831_035), ("a", -468_965_076), ("foobar", -1_080_231_576)] {
            assert_eq!(short_hash(text), hash, "{text}");
            let of_sql: i32 = sql.query_row("SELECT short_hash(?1)", [text], |row| row.get(0)).unwrap();
            assert_eq!(of_sql, hash);
        }
    }
}
