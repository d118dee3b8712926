package rowstream

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Holds reports whether a column can store each value of another one, besides NULL, and returns it as it was. It returns false where that
// is not certain.
func (c *Column) Holds(v *Column) bool {
	signs := !c.Unsigned || v.Unsigned
	switch {
	case sameValues(v, c):
		return true
	case c.kind() == kindInteger && v.kind() == kindInteger:
		low, high := integerRange(c)
		least, most := integerRange(v)
		return low <= least && high >= most
	case c.Type == "decimal" && v.kind() == kindInteger:
		precision, scale := decimalOf(c)
		_, most := integerRange(v)
		return signs && precision-scale >= len(strconv.FormatUint(most, 10))
	case c.Type == "decimal" && v.Type == "decimal":
		precision, scale := decimalOf(c)
		p, s := decimalOf(v)
		return signs && scale >= s && precision-scale >= p-s
	case c.kind() == kindText && v.kind() == kindText:
		return c.holdsText(v)
	case c.kind() == kindText && v.Type == "enum":
		return c.holdsMembers(v)
	case c.kind() == kindBinary && v.kind() == kindBinary && !geometric(c) && !geometric(v) && c.Type != "binary":
		return capacity(c) >= capacity(v)
	case c.kind() == kindTemporal && c.Type == v.Type:
		return fraction(c) >= fraction(v)
	case c.kind() == kindOrdinal && c.Type == v.Type:
		members, err := membersOf(c.FullType)
		others, err2 := membersOf(v.FullType)
		return err == nil && err2 == nil && !slices.ContainsFunc(others, func(m string) bool { return !slices.Contains(members, m) })
	}
	return false
}

var integerBits = map[string]uint{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}

// integerRange returns the least and the greatest value of an integer column.
func integerRange(c *Column) (low int64, high uint64) {
	bits := integerBits[c.Type]
	if bits == 0 {
		return 0, 0
	}
	if c.Unsigned {
		return 0, math.MaxUint64 >> (64 - bits)
	}
	return math.MinInt64 >> (64 - bits), math.MaxInt64 >> (64 - bits)
}

// lengthOf returns the number in parentheses of a type; 0: there is none.
func lengthOf(c *Column) int64 {
	_, list, _ := strings.Cut(c.FullType, "(")
	list, _, _ = strings.Cut(list, ")")
	n, _ := strconv.ParseInt(list, 10, 64)
	return n
}

// capacity returns how many bytes a column of bytes or TEXT can have.
func capacity(c *Column) int64 {
	switch {
	case strings.HasPrefix(c.Type, "tiny"):
		return 1<<8 - 1
	case strings.HasPrefix(c.Type, "medium"):
		return 1<<24 - 1
	case strings.HasPrefix(c.Type, "long"):
		return 1<<32 - 1
	case c.Type == "text", c.Type == "blob":
		return 1<<16 - 1
	}
	return lengthOf(c)
}

// anyCharacter reports whether a character set has each character of another one.
func anyCharacter(charset, of string) bool {
	return charset == of || of == "ascii" || slices.Contains([]string{"utf8mb4", "utf16", "utf16le", "utf32"}, charset)
}

// counted reports whether the length of a text column is one of characters.
func counted(c *Column) bool { return c.Type == "char" || c.Type == "varchar" }

func (c *Column) holdsText(v *Column) bool {
	const widest = 4 // bytes of a character
	switch {
	case !anyCharacter(c.Charset, v.Charset), c.Type == "char" && v.Type != "char":
		return false
	case counted(c) && counted(v):
		return lengthOf(c) >= lengthOf(v)
	case counted(v):
		return capacity(c) >= widest*lengthOf(v)
	}
	return !counted(c) && c.Charset == v.Charset && capacity(c) >= capacity(v)
}

func (c *Column) holdsMembers(v *Column) bool {
	members, err := membersOf(v.FullType)
	return err == nil && c.Type == "varchar" && anyCharacter(c.Charset, v.Charset) && !slices.ContainsFunc(members, func(m string) bool {
		return int64(utf8.RuneCountInString(m)) > lengthOf(c)
	})
}
