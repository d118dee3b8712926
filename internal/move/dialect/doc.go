// Package dialect translates definitions between MySQL and MariaDB, where one translation is right: the texts of SHOW CREATE of tables
// and stored objects, collations, and sql_mode. What has none is refused with the reason. It queries no server.
//
// # Terms
//
//   - A definition is the text that SHOW CREATE returns.
//   - A collation has a counterpart if both servers compare texts by the same rules: the same version of Unicode is not
//     required, the treatment of trailing spaces is.
//
// # What it does not do
//
// It parses no SQL: names and texts in quotes are left alone, and words outside of them are replaced. Functions that only one of the
// servers has are refused by the other when an object is created.
//
// # Specification
//
// MySQL "SHOW CREATE TABLE Statement", "Unicode Character Sets"; MariaDB "SHOW CREATE TABLE", "Supported Character Sets and Collations".
package dialect
