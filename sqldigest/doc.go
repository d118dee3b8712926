// Package sqldigest turns SQL statements into normalized text and a 128-bit digest, so that
// statements which differ in nothing but their literals count as one.
package sqldigest
