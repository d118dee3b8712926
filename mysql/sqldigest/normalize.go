package sqldigest

import "bytes"

// run normalizes the tokens of b that start in b[i:stop], and returns the offset after the last one. If final
// is false, that may be less than stop: b alone does not decide the token there.
func (d *Digester) run(b []byte, i, stop int, final bool) int {
	for i < stop && !d.cut {
		if d.open != openNone {
			i = d.resume(b, i)
			continue
		}
		if end := d.fast(b, i, stop, final); end != i {
			i = end
			continue
		}
		kind, end, word, open := d.s.next(b, i, final)
		switch kind {
		case kindMore:
			return i
		case KindSpace, KindExecOpen, KindExecClose:
			i = end
			continue
		case KindComment:
			d.comment(b[i:end], open)
			i = end
			continue
		}
		i = d.token(b, i, end, kind, word, open)
	}
	return i
}

// token normalizes the significant token b[i:end] and returns the offset to continue at.
func (d *Digester) token(b []byte, i, end int, kind Kind, word uint16, open bool) int {
	if kind == KindOperator && b[i] == ';' {
		d.semicolon = d.peek(1) != tokStart
		d.cut = d.split
		return end
	}
	if d.semicolon {
		d.semicolon = false
		d.push(tokSemicolon, ";")
	}
	switch kind {
	case KindKeyword:
		d.keyword(b[i:end], word)
	case KindIdent:
		d.startToken(d.identClass(d.peek(1)))
		d.buf = append(d.buf, '`')
		d.appendName(b[i:end])
		if open {
			d.open, d.half = openWord, 0
			return end
		}
		d.endName()
	case KindQuotedIdent, KindVariable:
		if word != 0 && d.quotedName(b[i:end], word) {
			return end
		}
		return d.quoted(b, i, end, kind, open)
	case KindIntroducer:
		d.startToken(tokCharset)
		d.buf = append(d.buf, '`')
		d.buf = append(d.buf, b[i:end]...)
		d.buf = append(d.buf, '`')
	case KindString:
		d.str()
		if open {
			d.open, d.quote, d.half = openString, b[end-1], 0
		}
	case KindHost:
		d.value()
		if open {
			d.open, d.quote, d.half = openString, b[i], 0
			if b[i] != '\'' && b[i] != '"' {
				d.open, d.half = openSkip, 0
			}
		}
	case KindNumber:
		d.number()
		if open {
			d.open = openNumber
		}
	case KindParam, KindNull:
		d.value()
	case KindEllipsis:
		d.ellipsis()
	case KindHintOpen:
		d.push(tokOther, "/*+")
	case KindHintClose:
		d.push(tokOther, "*/")
	default:
		d.operator(b[i:end])
	}
	return end
}

// quotedName appends the quoted name that spells the word, which is not reserved, without its quotes. It
// reports false if that would be a keyword: then the quotes stay.
func (d *Digester) quotedName(text []byte, word uint16) bool {
	last := d.peek(1)
	if last == tokAtAt {
		d.push(tokScope, keywords[word].text)
		return true
	}
	if last == tokDot || d.asKeyword(word, last, d.before) {
		return false
	}
	d.startToken(d.identClass(last))
	d.buf = append(d.buf, text[1:1+len(keywords[word].word)]...)
	d.quotedWord = true
	return true
}

func (d *Digester) keyword(text []byte, word uint16) {
	k := &keywords[word]
	last := d.peek(1)
	code := k.class
	switch {
	case last == tokAtAt:
		code = tokScope
	case k.flags&isLiteral != 0 && startsLiteral>>last&1 != 0:
		d.value()
		return
	case k.flags&isCallOnMariaDB != 0 && d.s.mode.kind() == ServerMariaDB && d.before != 0 && keywords[uint16(d.before&^firstOfStatement)].flags&isNames != 0:
		d.startToken(tokIdent) // a table's or an index's, with a list of columns
		d.buf = append(append(append(d.buf, '`'), text...), '`')
		return
	case k.flags&d.s.names != 0 && !d.asKeyword(word, last, d.before):
		if code = d.identClass(last); k.class == tokTemporal {
			code = temporalClass(code)
		}
		d.startToken(code)
		if last == tokDot {
			d.buf = append(append(append(d.buf, '`'), text...), '`')
			return
		}
		d.buf = append(d.buf, text...)
		return
	}
	d.push(code, k.text)
	d.sawWord(word, last)
}

func (d *Digester) operator(op []byte) {
	code := operatorClass(op)
	if code == tokOpen && d.quotedWord {
		d.s.unsure = true // as a function it differs with and without quotes
	}
	switch code {
	case tokClose:
		d.closeParen()
		return
	case tokSign:
		d.sign(op)
		return
	case tokExpr:
		if len(op) == 2 && op[0] == '<' && op[1] == '>' {
			d.push(tokExpr, "!=")
			return
		}
	}
	d.startToken(code)
	d.buf = append(d.buf, op...)
}

// operatorClass returns the class of an operator; + and - are tokSign.
func operatorClass(op []byte) uint8 {
	switch op[0] {
	case ',':
		return tokComma
	case '(':
		return tokOpen
	case ')':
		return tokClose
	case '.':
		return tokDot
	case '@':
		if len(op) > 1 {
			return tokAtAt
		}
		return tokAt
	case '+', '-':
		if len(op) > 1 { // -> and ->> require a string
			return tokOther
		}
		return tokSign
	case '*':
		return tokStar
	case '=', '<', '>', '!', '/', '%', '^', '~', '&', '|', ':':
		return tokExpr
	}
	return tokOther
}

// quoted normalizes an identifier or variable name, which may be quoted.
func (d *Digester) quoted(b []byte, i, end int, kind Kind, open bool) int {
	code := d.identClass(d.peek(1))
	if kind == KindVariable {
		code = tokVariable
	}
	d.startToken(code)
	d.buf = append(d.buf, '`')
	q := b[i]
	switch {
	case q != '`' && q != '"' && q != '\'':
		d.appendName(b[i:end])
		if open {
			d.open, d.half = openVariable, 0
			return end
		}
		d.endName()
		return end
	case kind == KindVariable && (q == '\'' || q == '"' && d.s.mode&ANSIQuotes == 0):
		d.open = openVarString
	default:
		d.open = openName
	}
	d.quote, d.half = q, 0
	return d.resume(b, i+1)
}

// appendName appends the content of an identifier, in pieces that bound the buffer.
func (d *Digester) appendName(p []byte) {
	for len(p) > 0 {
		piece := p[:min(len(p), pieceSize)]
		if need := 2*len(piece) + 1; len(d.buf) > d.limit || cap(d.buf)-len(d.buf) < need {
			d.makeRoom(need)
		}
		p = p[len(piece):]
		if d.s.mode&anyCharset != 0 {
			d.appendChars(piece)
			continue
		}
		for {
			n := bytes.IndexByte(piece, '`')
			if n < 0 {
				d.buf = append(d.buf, piece...)
				break
			}
			d.buf = append(append(d.buf, piece[:n+1]...), '`')
			piece = piece[n+1:]
		}
	}
}
