package sqldigest

import "sort"

//go:generate go run gen_ctype.go

// A Charset is a character set of a client. The zero value is none. Values may change between releases: store
// the name.
type Charset uint8

// String returns the name.
func (c Charset) String() string {
	if int(c) >= len(charsetNames) {
		return ""
	}
	return charsetNames[c]
}

// CharsetNamed returns the character set with that name, ignoring case, and 0 for an unknown one. utf8 is
// utf8mb3. It does not allocate.
func CharsetNamed(name []byte) Charset {
	if foldedIs(name, "utf8") {
		name = []byte("utf8mb3")
	}
	for i, n := range charsetNames {
		if i > 0 && foldedIs(name, n) {
			return Charset(i)
		}
	}
	return 0
}

// foldedIs reports whether name equals n, which is in lower case, ignoring case.
func foldedIs(name []byte, n string) bool {
	if len(name) != len(n) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != n[i] {
			return false
		}
	}
	return true
}

// A collationRun is a range of collation ids of one character set.
type collationRun struct {
	from, to uint16
	charset  Charset
}

// CharsetOfCollation returns the character set of the collation with that id, as used by logins and
// COM_CHANGE_USER, and 0 for an unknown one. It does not allocate.
func CharsetOfCollation(id uint16) Charset {
	i := sort.Search(len(collations), func(i int) bool { return collations[i].to >= id })
	if i < len(collations) && collations[i].from <= id {
		return collations[i].charset
	}
	return 0
}

// WithCharset returns m for a client with that character set, which is then known. It remains unknown if c is
// 0 or has other meanings than ASCII for bytes below 0x80.
func (m Mode) WithCharset(c Charset) Mode {
	m &^= charsetBits | Big5 | GBK | SJIS | UnknownCharset
	if !c.forClients() {
		return m | UnknownCharset
	}
	m |= Mode(c) << charsetShift
	switch c.String() {
	case "big5":
		m |= Big5
	case "gbk", "gb18030":
		m |= GBK
	case "sjis", "cp932":
		m |= SJIS
	}
	return m
}

// Charset returns the client's character set, 0 if none was set.
func (m Mode) Charset() Charset { return Charset(m >> charsetShift) }

// forClients reports whether clients can use the character set and statements in it can be lexed. In swe7 the
// characters [ \ ] ^ ` { | } ~ and @ are letters.
func (c Charset) forClients() bool {
	return (tableOf(ctypesMariaDB[:], c) != 0 || tableOf(ctypesMySQL[:], c) != 0) && c.String() != "swe7"
}

func tableOf(tables []uint8, c Charset) uint8 {
	if int(c) >= len(tables) {
		return 0
	}
	return tables[c]
}
