package sqldigest

import "encoding/binary"

//go:generate go run gen_keywords.go

// A Keyword is a word of the language; the zero value is none. Values may change between releases: compare
// with the constants, store the text.
type Keyword uint16

// String returns the word in upper case, as in normalized text.
func (k Keyword) String() string {
	if int(k) >= len(keywords) {
		return ""
	}
	return keywords[k].text
}

// LookupKeyword returns the keyword spelled by word, ignoring case, or 0. It also finds function names that
// are keywords only before a parenthesis (COUNT). It does not allocate.
func LookupKeyword(word string) Keyword {
	if len(word) > maxKeyword {
		return 0
	}
	var b [maxKeyword + 8]byte
	n := copy(b[:], word)
	for _, c := range b[:n] {
		if !ctypes[0].isWord(c) {
			return 0
		}
	}
	id := lookupKeyword(b[:], 0, n)
	return Keyword(keywords[id].canon)
}

const maxKeyword = 38 // ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS

type keywordFlags uint16

const (
	isCall keywordFlags = 1 << iota
	isExpr
	isHint
	isTemporal
	isLiteral
	isCharset
	isName
	isNames
	isFirst
	isTail
	isUnit
	isNameOnMariaDB
	isNameOnMySQL
	isNameOnTiDB
	isCallOnMariaDB
)

// namesOf returns the flags of the words that are not reserved on a mode's server.
func namesOf(m Mode) keywordFlags {
	switch m.kind() {
	case ServerMariaDB:
		return isName | isNameOnMariaDB
	case ServerMySQL:
		return isName | isNameOnMySQL
	case ServerTiDB:
		return isName | isNameOnTiDB
	}
	return isName
}

// keyword is one entry of the generated table. lo and hi are the word's first and last eight bytes folded
// (bit 5 cleared), little endian; hi is 0 if lo contains the whole word.
type keyword struct {
	lo, hi uint64
	text0  uint64 // the first 8 bytes of text, little endian
	word   string
	text   string // printed text: the word, or the word it is a synonym of
	canon  uint16
	flags  keywordFlags
	class  uint8 // in normalized text, see reduce.go
}

const foldMask = 0xdfdfdfdfdfdfdfdf

// foldWord loads the word b[i:end] with bit 5 of each byte cleared. Word bytes are letters, digits, _, $ and
// bytes past 0x7f; folding maps letters to upper case and no two of the others to each other, so equal folded
// words are equal up to case.
func foldWord(b []byte, i, end int) (lo, hi uint64) {
	n := end - i
	if n > 8 {
		return binary.LittleEndian.Uint64(b[i:]) & foldMask, binary.LittleEndian.Uint64(b[end-8:]) & foldMask
	}
	if i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:]) & (foldMask >> (uint(8-n) * 8 & 63)), 0
	}
	for j := i; j < end; j++ {
		lo |= uint64(b[j]&^0x20) << (uint(j-i) * 8 & 63)
	}
	return lo, 0
}

func keywordSlot(lo, hi uint64, n int) uint64 {
	return ((lo ^ hi<<7 ^ hi>>3 ^ uint64(n)) * 0x9e3779b97f4a7c15) >> 52
}

// lookupKeyword returns the table index of the word b[i:end], 1 ≤ end-i ≤ maxKeyword, or 0.
func lookupKeyword(b []byte, i, end int) uint16 {
	lo, hi := foldWord(b, i, end)
	for h := keywordSlot(lo, hi, end-i); ; h = (h + 1) % keywordSlots {
		id := keywordTable[h]
		if id == 0 {
			return 0
		}
		k := &keywords[id]
		if k.lo != lo || k.hi != hi || len(k.word) != end-i {
			continue
		}
		if end-i > 16 && !foldedEqual(b[i+8:end-8], k.word[8:]) {
			continue
		}
		return id
	}
}

// foldedEqual reports whether word begins with b, ignoring case.
func foldedEqual(b []byte, word string) bool {
	for j, c := range b {
		if (c^word[j])&^0x20 != 0 {
			return false
		}
	}
	return true
}
