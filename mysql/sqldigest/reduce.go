package sqldigest

// Classes of the tokens in normalized text, as distinguished by reduction and spacing.
const (
	tokNone         uint8 = iota // outside the window
	tokStart                     // before the first token
	tokOther                     // a token without a role in the rules
	tokIdent                     // `x`
	tokExpr                      // an expression starts after it
	tokStar                      // *, after which an expression starts too
	tokNot                       // NOT: a sign after it is unary, but NULL stays
	tokSign                      // + or - between two operands
	tokUnary                     // a run of unary + and -
	tokComma                     // ,
	tokOpen                      // (
	tokClose                     // )
	tokDot                       // .
	tokAt                        // @
	tokAtAt                      // @@
	tokScope                     // the keyword after @@
	tokCall                      // COUNT and the like, before their parenthesis
	tokIn                        // IN
	tokRowWord                   // ROW
	tokTemporal                  // DATE, TIME, TIMESTAMP
	tokCharset                   // a character set introducer
	tokEllipsis                  // ...
	tokValue                     // ?
	tokValues                    // ?, ...
	tokRow1                      // (?)
	tokRows1                     // (?), ...
	tokRow                       // (...)
	tokRows                      // (...), ...
	tokCtor1                     // ROW (?)
	tokCtors1                    // ROW (?), ...
	tokCtor                      // ROW (...)
	tokCtors                     // ROW (...), ...
	tokSemicolon                 // ;
	tokFunc                      // an identifier that is a function's if a parenthesis follows
	tokVariable                  // the name after an @, without a gap
	tokTemporalFunc              // DATE, TIME, TIMESTAMP where they may be one
)

// Sets of classes.
const (
	// startsExpr are the tokens after which a sign is unary.
	startsExpr uint64 = 1<<tokExpr | 1<<tokStar | 1<<tokNot | 1<<tokSign | 1<<tokUnary | 1<<tokComma | 1<<tokOpen
	// startsLiteral are the tokens after which NULL, TRUE and FALSE are literals.
	startsLiteral = startsExpr &^ (1 << tokNot)

	tightBefore uint64 = 1<<tokComma | 1<<tokClose | 1<<tokSemicolon
	parens      uint64 = 1<<tokOpen | 1<<tokRow1 | 1<<tokRow
	names       uint64 = 1<<tokIdent | 1<<tokFunc
)

// tight maps each token to those that follow it without a space.
var tight = [64]uint64{
	tokNone: tightBefore, tokStart: ^uint64(0), tokOther: tightBefore,
	tokIdent:        tightBefore | 1<<tokDot | 1<<tokAt,
	tokTemporalFunc: tightBefore | 1<<tokDot | 1<<tokAt | parens,
	tokVariable:     tightBefore | 1<<tokDot | 1<<tokAt,
	tokFunc:         tightBefore | 1<<tokDot | 1<<tokAt | parens,
	tokExpr:         tightBefore, tokStar: tightBefore | 1<<tokDot, tokNot: tightBefore, tokSign: tightBefore, tokUnary: tightBefore, tokComma: tightBefore,
	tokOpen: ^uint64(0), tokClose: tightBefore,
	tokDot:   tightBefore | names | 1<<tokStar,
	tokAt:    tightBefore | 1<<tokVariable | 1<<tokValue,
	tokAtAt:  tightBefore | names | 1<<tokScope,
	tokScope: tightBefore | 1<<tokDot,
	tokCall:  tightBefore | parens,
	tokIn:    tightBefore, tokRowWord: tightBefore, tokTemporal: tightBefore | 1<<tokDot | 1<<tokAt, tokCharset: tightBefore,
	tokEllipsis: tightBefore,
	tokValue:    tightBefore | 1<<tokAt,
	tokValues:   tightBefore,
	tokRow1:     tightBefore, tokRows1: tightBefore, tokRow: tightBefore, tokRows: tightBefore,
	tokCtor1: tightBefore, tokCtors1: tightBefore, tokCtor: tightBefore, tokCtors: tightBefore,
	tokSemicolon: tightBefore,
}

// window is the number of tokens at the end of the text that are recorded. The longest rule inspects the last
// five ("row , ROW ( value"), and no rule removes more than it inspects, so an overwritten entry is never
// read.
const (
	window   = 8
	longRule = 5
)

// peek returns the class of the k-th token from the end, 1 being the last.
func (d *Digester) peek(k uint) uint8 { return d.codes[(d.top-k)%window] }

// pop removes the last n tokens.
func (d *Digester) pop(n uint) {
	d.top -= n
	d.before, d.quotedWord = 0, false
	d.buf = d.buf[:d.starts[d.top%window]]
}

// push appends a token.
func (d *Digester) push(code uint8, text string) {
	d.startToken(code)
	d.buf = append(d.buf, text...)
}

// startToken starts a token whose text the caller appends; it leaves room for minRoom bytes.
func (d *Digester) startToken(code uint8) {
	if len(d.buf) > d.soft {
		d.makeRoom(minRoom)
	}
	n := len(d.buf)
	last := d.codes[(d.top-1)%window]
	d.starts[d.top%window], d.codes[d.top%window] = n, code
	d.top++
	d.pushed++
	d.before, d.quotedWord = 0, false
	if tight[last%64]>>(code%64)&1 == 0 {
		d.buf = d.buf[:n+1]
		d.buf[n] = ' '
	}
}

// value reduces a literal: VALUE, or the continuation of a list.
func (d *Digester) value() {
	if d.peek(1) == tokComma {
		switch d.peek(2) {
		case tokValues:
			d.pop(1)
			return
		case tokValue:
			d.pop(1)
			d.list(tokValues)
			return
		}
	}
	d.startToken(tokValue)
	d.buf = append(d.buf, '?')
}

// list turns the last token into a list of its kind.
func (d *Digester) list(code uint8) {
	d.codes[(d.top-1)%window] = code
	d.buf = append(d.buf, ", ..."...)
}

// maxSigns is the longest run of unary signs that a number absorbs.
const maxSigns = 32

// sign appends + or -. Consecutive unary ones are one token, which a number absorbs.
func (d *Digester) sign(op []byte) {
	last := d.peek(1)
	switch {
	case last == tokUnary && d.signs < maxSigns:
		d.signs++
		d.pushed++
		d.buf = append(append(d.buf, ' '), op...)
		return
	case last != tokUnary && startsExpr>>last&1 != 0:
		d.signs = 1
		d.startToken(tokUnary)
	default:
		d.startToken(tokSign)
	}
	d.buf = append(d.buf, op...)
}

// number reduces a number and the signs before it.
func (d *Digester) number() {
	if d.peek(1) == tokUnary {
		d.pop(1)
	}
	if d.peek(1) == tokCharset {
		d.pop(1)
	}
	d.value()
}

// str reduces a string literal. Adjacent strings are one literal.
func (d *Digester) str() {
	if d.afterString == d.pushed {
		return
	}
	if c := d.peek(1); c == tokCharset || c == tokTemporal || c == tokTemporalFunc {
		d.pop(1)
	}
	d.value()
	d.pushed++
	d.afterString = d.pushed
}

// ellipsis reduces "...", so that normalized text normalizes to itself.
func (d *Digester) ellipsis() {
	if d.peek(1) == tokComma {
		switch c := d.peek(2); c {
		case tokValues, tokRows1, tokRows, tokCtors1, tokCtors:
			d.pop(1)
			return
		case tokValue, tokRow1, tokRow, tokCtor1, tokCtor:
			d.pop(1)
			d.list(c + 1)
			return
		}
	}
	d.push(tokEllipsis, "...")
}

// closeParen reduces a row of literals, and the rows before it.
func (d *Digester) closeParen() {
	d.pushed++ // a string after it is not an adjacent one
	code, text := tokRow, "(...)"
	switch d.peek(1) {
	case tokValue:
		code, text = tokRow1, "(?)"
	case tokValues, tokEllipsis:
	default:
		d.push(tokClose, ")")
		return
	}
	if d.peek(2) != tokOpen {
		d.push(tokClose, ")")
		return
	}
	d.pop(2)
	switch d.peek(1) {
	case tokIn:
		d.pop(1)
		d.push(tokOther, "IN (...)")
		return
	case tokRowWord:
		d.pop(1)
		if code == tokRow {
			code, text = tokCtor, "ROW (...)"
		} else {
			code, text = tokCtor1, "ROW (?)"
		}
	}
	if d.peek(1) == tokComma {
		switch d.peek(2) {
		case code + 1:
			d.pop(1)
			return
		case code:
			d.pop(1)
			d.list(code + 1)
			return
		}
	}
	d.push(code, text)
}
