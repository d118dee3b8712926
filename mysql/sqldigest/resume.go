package sqldigest

import "bytes"

// resume continues the open token at b[i], and returns the offset where it or b ends.
func (d *Digester) resume(b []byte, i int) int {
	switch d.open {
	case openString:
		return d.resumeString(b, i, false)
	case openVarString:
		return d.resumeString(b, i, true)
	case openName:
		return d.resumeName(b, i)
	case openWord:
		return d.resumeRun(b, i, true, false)
	case openVariable:
		return d.resumeRun(b, i, true, true)
	case openSkip:
		return d.resumeRun(b, i, false, true)
	case openNumber:
		end, open := d.s.numberRest(b, i, false)
		if !open {
			d.open = openNone
		}
		return end
	case openBlock:
		return d.resumeBlock(b, i)
	case openLine:
		end := len(b)
		if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
			d.open, end = openNone, i+n
		}
		d.s.unsure = d.s.unsure || bytes.IndexByte(b[i:end], 0) >= 0
		return end
	}
	panic("BUG: resume without an open token")
}

// resumeRun continues an unquoted word, with dots if dots is set.
func (d *Digester) resumeRun(b []byte, i int, name, dots bool) int {
	if d.half != 0 { // a lead byte
		d.half = 0
		if d.s.mode.trails(b[i]) {
			d.copyName(b[i:i+1], name)
			i++
		}
	}
	end := d.s.wordEnd(b, i, false)
	if dots {
		end = d.s.nameEnd(b, i, false)
	}
	if d.s.goesOn(b, end, false) {
		if end < len(b) {
			d.half = b[end]
		}
		d.copyName(b[i:], name)
		return len(b)
	}
	d.copyName(b[i:end], name)
	return d.closeOpen(end, name)
}

// resumeString continues a string literal or, if name is set, a variable name that is written like one and
// copied, escapes included.
func (d *Digester) resumeString(b []byte, i int, name bool) int {
	if d.s.mode&anyCharset != 0 {
		return d.resumeChars(b, i, name, d.s.mode&NoBackslashEscapes == 0)
	}
	escape := byte('\\')
	if d.s.mode&NoBackslashEscapes != 0 {
		escape = d.quote
	}
	from := i
	if d.half != 0 && i < len(b) {
		if d.half == d.quote && b[i] != d.quote {
			return d.closeOpen(i, name)
		}
		d.half = 0
		i++
	}
	for {
		j := indexEither(b, i, d.quote, escape)
		if j >= len(b) {
			d.copyName(b[from:], name)
			return len(b)
		}
		if j+1 == len(b) {
			d.half = b[j]
			if b[j] == d.quote {
				d.copyName(b[from:j], name)
			} else {
				d.copyName(b[from:], name)
			}
			return len(b)
		}
		switch {
		case b[j] != d.quote:
		case b[j+1] != d.quote:
			d.copyName(b[from:j], name)
			return d.closeOpen(j+1, name)
		default: // the two quotes represent one
			d.copyName(b[from:j], name)
			from = j + 1
		}
		i = j + 2
	}
}

func (d *Digester) copyName(p []byte, name bool) {
	if name {
		d.appendName(p)
	}
}

// closeOpen ends the open token before i.
func (d *Digester) closeOpen(i int, name bool) int {
	d.open, d.half = openNone, 0
	if name {
		d.endName()
	}
	return i
}

func (d *Digester) resumeName(b []byte, i int) int {
	if d.s.mode&anyCharset != 0 {
		return d.resumeChars(b, i, true, false)
	}
	if d.half != 0 && i < len(b) {
		if b[i] != d.quote {
			return d.closeOpen(i, true)
		}
		d.half = 0
		d.appendName(b[i : i+1])
		i++
	}
	for {
		n := bytes.IndexByte(b[i:], d.quote)
		if n < 0 {
			d.appendName(b[i:])
			return len(b)
		}
		d.appendName(b[i : i+n])
		i += n
		if i+1 == len(b) {
			d.half = d.quote
			return len(b)
		}
		if b[i+1] != d.quote {
			return d.closeOpen(i+1, true)
		}
		d.appendName(b[i : i+1])
		i += 2
	}
}

func (d *Digester) resumeBlock(b []byte, i int) int {
	if d.half == '*' && i < len(b) {
		d.half = 0
		if b[i] == '/' {
			d.open = openNone
			d.tags.close(d.pushed)
			return i + 1
		}
		d.tags.add('*')
	}
	n := bytes.Index(b[i:], []byte("*/"))
	if n >= 0 {
		d.tags.addAll(b[i : i+n])
		d.tags.close(d.pushed)
		d.open = openNone
		return i + n + 2
	}
	end := len(b)
	if end > i && b[end-1] == '*' {
		d.half = '*'
		end--
	}
	d.tags.addAll(b[i:end])
	return len(b)
}

// comment records a comment, which may contain tags.
func (d *Digester) comment(c []byte, open bool) {
	block := len(c) > 1 && c[1] == '*'
	switch {
	case !block && open:
		d.open = openLine
	case block && open:
		d.open, d.half = openBlock, 0
		d.tags.reset()
	case block && len(c) >= 4 && c[len(c)-1] == '/' && c[len(c)-2] == '*':
		d.tags.reset()
		d.tags.addAll(c[2 : len(c)-2])
		d.tags.close(d.pushed)
	}
}
