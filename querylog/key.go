package querylog

import (
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// A key is a field's name as written in a line, with its separators. Copying a fixed 24 bytes, some of them
// unused, costs less than copying a name of variable length.
type key struct {
	json, text       [keyRoom]byte
	jsonLen, textLen uint8
	_                [6]byte
}

// keyRoom is the room for a name with a comma, two quotation marks and a colon.
const keyRoom = 24

func newKey(name string) key {
	var k key
	k.jsonLen = uint8(copy(k.json[:], `,"`+name+`":`))
	k.textLen = uint8(copy(k.text[:], "\t"+name+":"))
	if int(k.jsonLen) < len(name)+4 {
		panic("BUG: querylog: field name " + name + " is too long")
	}
	return k
}

var keySeq = newKey("seq")

// at appends k.
func (l *Line) at(k *key) {
	b := l.buf
	n := len(b)
	if cap(b)-n < keyRoom {
		b = slices.Grow(b, keyRoom)
	}
	room := (*[keyRoom]byte)(b[n : n+keyRoom])
	if l.Format == JSON {
		*room = k.json
		l.buf = b[:n+int(k.jsonLen)]
		return
	}
	*room = k.text
	l.buf = b[:n+int(k.textLen)]
}

func (l *Line) uintAt(k *key, v uint64) {
	l.at(k)
	l.buf = appendUint(l.buf, v)
}

func (l *Line) durationAt(k *key, d time.Duration) {
	l.at(k)
	l.buf = appendInt(l.buf, int64(d))
}

func (l *Line) stringAt(k *key, s string) {
	l.at(k)
	l.bytesValue(view(s))
}

func (l *Line) timeAt(k *key, t time.Time) {
	l.at(k)
	l.timeValue(t)
}

func (l *Line) addrAt(k *key, a netip.AddrPort) {
	l.at(k)
	l.addrValue(a)
}

func (l *Line) hexAt(k *key, b []byte) {
	l.at(k)
	l.hexValue(b)
}

func (l *Line) boolAt(k *key, v bool) {
	l.at(k)
	l.buf = strconv.AppendBool(l.buf, v)
}
