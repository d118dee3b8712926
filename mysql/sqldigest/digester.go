package sqldigest

import (
	"crypto/sha256"
	"hash"
)

// DefaultMaxText is the default of Digester.MaxText.
const DefaultMaxText = 64 << 10

const (
	// spillRoom is the number of bytes by which the text may exceed the kept part before its settled part is
	// hashed and dropped. It exceeds the size of a window of tokens.
	spillRoom = 8 << 10
	// keptBuffer is the largest scratch that survives Reset.
	keptBuffer = 16 << 10
	// minRoom is the room that begin leaves: for any token except an identifier, and a space.
	minRoom = 128
	// pieceSize is the part of a long identifier that is appended at a time.
	pieceSize = 2 << 10
)

// A Digester normalizes statements, one at a time. The zero value is ready. It is not safe for concurrent
// use. Its scratch is bounded: MaxText and a few KiB during a statement, at most 16 KiB of buffer after the
// next Reset.
type Digester struct {
	// MaxText is the maximum length of Text in bytes; 0 means DefaultMaxText. The digest covers the whole
	// text. A change takes effect at the next Reset.
	MaxText int

	s     scanner
	open  openToken
	quote byte // the byte that ends the open token
	half  byte // last byte of the open token, if its meaning depends on the next byte
	lead  bool // the last byte of the name in the text may begin a two-byte character

	buf         []byte // normalized text
	top         uint   // tokens in the text and two sentinels; the last ones are recorded, each at its number modulo window
	codes       [window]uint8
	starts      [window]int // their offsets in buf, the preceding space included
	pushed      uint64      // counts tokens; never decreases
	afterString uint64      // value of pushed after a string literal
	signs       int         // in the last token, if that is tokUnary
	semicolon   bool        // a semicolon has to precede the next token
	split, cut  bool        // a semicolon ends the run of WriteStatement; it has
	rest        bool        // carry has what follows that semicolon
	before      wordBefore  // the last token, if it is a keyword
	quotedWord  bool        // the last token lost its quotes: a word that is not reserved
	rows        bool        // the statement concerns rows, which have names: SELECT, UPDATE and the like

	soft    int       // length of buf above which makeRoom must run
	limit   int       // length of buf above which to spill
	kept    int       // length of the text that stays in buf after the first spill
	hashed  hash.Hash // hash state of the spilled text
	spilled bool
	sum     [sha256.Size]byte
	digest  Digest // result of Sum
	summed  bool

	carry  [maxCarry * 3]byte // start of a token that Write could not classify yet
	ncarry int

	tags  tagComment
	marks marks
}

// openToken is the token that continues in the next Write.
type openToken uint8

const (
	openNone openToken = iota
	openString
	openName      // quoted identifier, copied
	openWord      // bare identifier, copied
	openVariable  // unquoted variable name, copied
	openSkip      // rest of a host
	openNumber    // rest of a number
	openBlock     // block comment
	openLine      // line comment
	openVarString // quoted variable name, copied
)

// Digest returns the digest of sql: Reset, Write and Sum combined, without copying sql. It does not allocate
// once the buffer has grown to the statement's text, and reads each byte a small constant number of times.
func (d *Digester) Digest(sql []byte, m Mode) Digest {
	d.Reset(m)
	d.mark(sql)
	d.run(sql, 0, len(sql), true)
	return d.Sum()
}

// Reset starts a new statement. It invalidates views of Text and Tags.
func (d *Digester) Reset(m Mode) {
	if cap(d.buf) > keptBuffer {
		d.buf = nil
	}
	d.buf = d.buf[:0]
	d.s = newScanner(m)
	d.open, d.half, d.lead = openNone, 0, false
	d.codes[0], d.codes[1] = tokNone, tokStart
	d.top = 2
	d.pushed, d.afterString = 1, 0
	d.semicolon, d.spilled, d.summed = false, false, false
	d.cut, d.rest = false, false
	d.before, d.rows, d.quotedWord = 0, false, false
	d.limit = d.maxText() + spillRoom
	d.soft = min(d.limit, cap(d.buf)-minRoom)
	d.kept, d.ncarry = 0, 0
	d.tags.reset()
	d.marks = marks{}
}

func (d *Digester) maxText() int {
	if d.MaxText > 0 {
		return d.MaxText
	}
	return DefaultMaxText
}

// Write adds p to the statement. Digest, text and tags do not depend on how a statement is split over calls;
// p is not retained. Write never fails, and does not allocate once the buffer has grown to the statement's
// text. After Sum, Write has no effect until Reset.
func (d *Digester) Write(p []byte) (int, error) {
	if d.summed {
		return len(p), nil
	}
	d.mark(p)
	i := 0
	for d.ncarry > 0 && i < len(p) {
		i += d.writeCarried(p[i:])
	}
	if i < len(p) {
		if i = d.run(p, i, len(p), false); i < len(p) {
			d.ncarry = copy(d.carry[:], p[i:])
		}
	}
	return len(p), nil
}

// WriteStatement is Write up to the first semicolon that is not part of another token. It returns the number of bytes
// of p that it read, and reports whether it found a semicolon. Then the statement is complete, and Next starts the one
// after it; call it again until it finds none, also after all of p. It may not find one that is the text's last byte.
func (d *Digester) WriteStatement(p []byte) (n int, ended bool) {
	if d.summed {
		return len(p), false
	}
	d.split = true
	i := 0
	for d.ncarry > 0 && (i < len(p) || d.rest) && !d.cut {
		d.rest = false
		i += d.writeCarried(p[i:])
	}
	if !d.cut {
		from := i
		if i = d.run(p, from, len(p), false); !d.cut && i < len(p) {
			d.ncarry += copy(d.carry[d.ncarry:], p[i:])
			i = len(p)
		}
	}
	d.split = false
	d.mark(p[:i])
	return i, d.cut
}

// Next starts the statement after the one that WriteStatement has found the end of, and returns the number of bytes of
// it that were read. Servers read it from its start: a comment that contains the semicolon has ended.
func (d *Digester) Next() (read int) {
	read = d.ncarry
	d.Reset(d.s.mode)
	d.ncarry, d.rest = read, read > 0
	d.mark(d.carry[:read])
	return read
}

// writeCarried continues the token in carry, and returns the number of bytes of p consumed.
func (d *Digester) writeCarried(p []byte) int {
	held := d.ncarry
	n := held + copy(d.carry[held:], p)
	i := d.run(d.carry[:n], 0, held, false)
	if i >= held {
		d.ncarry = 0
		return i - held
	}
	if d.cut {
		n = held // a caller has the rest of p
	}
	// The token is still undecided: all of p is in carry, which has room for any token that has to be held
	// back, with its lookahead.
	d.ncarry = copy(d.carry[:], d.carry[i:n])
	return n - held
}

// Sum ends the statement and returns its digest. Further calls return the same digest.
func (d *Digester) Sum() Digest {
	if d.summed {
		return d.digest
	}
	if !d.cut {
		d.run(d.carry[:d.ncarry], 0, d.ncarry, true)
		d.ncarry = 0
	}
	switch d.open {
	case openName, openWord, openVariable, openVarString:
		d.endName()
	}
	d.open = openNone
	d.marks.end()
	if d.spilled {
		d.hashed.Write(d.buf[d.kept:])
		d.hashed.Sum(d.sum[:0])
	} else {
		d.sum = sha256.Sum256(d.buf)
	}
	d.digest, d.summed = versioned(d.sum), true
	return d.digest
}

// Text returns the normalized text after Sum, a view that is valid until Reset. It is truncated at a token
// boundary if it exceeds MaxText; see TextTruncated.
func (d *Digester) Text() []byte {
	n := len(d.buf)
	if d.TextTruncated() {
		n = lastBorder(d.buf, d.maxText(), d.s.mode&anyCharset)
	}
	return d.buf[:n:n]
}

// TextTruncated reports whether Text lacks part of the normalized text.
func (d *Digester) TextTruncated() bool { return len(d.buf) > d.maxText() }

// lastBorder returns the end of the last token of normalized text that ends at or before n.
func lastBorder(text []byte, n int, m Mode) int {
	var l Lexer
	l.Reset(text, m)
	end := 0
	for {
		t := l.NextSignificant()
		if t.Kind == KindEOF || t.End > n {
			return end
		}
		end = t.End
	}
}

// makeRoom spills the text if it has grown past the limit, and leaves room for need bytes. The buffer grows
// fourfold, but not beyond the limit's requirement.
func (d *Digester) makeRoom(need int) {
	if len(d.buf) > d.limit {
		d.spill()
	}
	if n := len(d.buf); cap(d.buf)-n < need {
		size := max(min(4*n, d.limit+2*pieceSize), n+need, 512)
		d.buf = append(make([]byte, 0, size), d.buf...)
	}
	d.soft = min(d.limit, cap(d.buf)-minRoom)
}

// spill hashes the settled part of the text past the kept part, and drops it.
func (d *Digester) spill() {
	settled := d.settled()
	if !d.spilled {
		if d.hashed == nil {
			d.hashed = sha256.New()
		}
		d.hashed.Reset()
		d.hashed.Write(d.buf[:settled])
		d.spilled, d.kept, d.limit = true, settled, settled+spillRoom
		return
	}
	d.hashed.Write(d.buf[d.kept:settled])
	drop := settled - d.kept
	d.buf = append(d.buf[:d.kept], d.buf[settled:]...)
	for i := range d.starts {
		d.starts[i] -= drop
	}
}

// settled returns the length of the text that no rule can change any more: up to the last identifier, or all
// but the last few tokens. The text has more tokens than that: settled is called only for a text past
// MaxText.
func (d *Digester) settled() int {
	end := len(d.buf)
	for k := uint(1); k <= longRule; k++ {
		if names>>d.peek(k)&1 != 0 {
			break
		}
		end = d.starts[(d.top-k)%window]
	}
	return end
}
