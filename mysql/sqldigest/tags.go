package sqldigest

import "iter"

// maxTags is the longest comment that is searched for tags.
const maxTags = 4 << 10

// tagComment is the latest block comment, which may turn out to be the trailing one.
type tagComment struct {
	text    []byte // the comment's content
	long    bool   // it is longer than maxTags
	closed  bool
	after   uint64 // tokens before it
	scratch []byte // the last decoded key and value
}

func (t *tagComment) reset() {
	t.text, t.long, t.closed = t.text[:0], false, false
}

func (t *tagComment) add(c byte) {
	if len(t.text) == maxTags {
		t.long = true
		return
	}
	t.text = append(t.text, c)
}

func (t *tagComment) addAll(p []byte) {
	if len(t.text)+len(p) > maxTags {
		t.long = true
		return
	}
	t.text = append(t.text, p...)
}

func (t *tagComment) close(tokens uint64) { t.closed, t.after = true, tokens }

// Tags returns the sqlcommenter tags of the statement after Sum: the keys and values of a trailing comment of
// the form /*key='value',…*/, URL-decoded, in the order written. A comment of any other form, or longer than
// 4 KiB, has none. Key and value are views that are valid until the next pair. Iterating does not allocate
// once the scratch has grown.
func (d *Digester) Tags() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) { d.eachTag(yield) }
}

func (d *Digester) eachTag(yield func(key, value []byte) bool) {
	t := &d.tags
	if !t.closed || t.long || t.after != d.pushed || !validTags(t.text) {
		return
	}
	for rest := t.text; ; {
		key, value, tail, _ := cutTag(rest)
		t.scratch = unescape(t.scratch[:0], key)
		n := len(t.scratch)
		t.scratch = unescape(t.scratch, value)
		if !yield(t.scratch[:n:n], t.scratch[n:len(t.scratch):len(t.scratch)]) || len(tail) == 0 {
			return
		}
		rest = tail[1:]
	}
}

// validTags reports whether text is a list of tags and nothing else.
func validTags(text []byte) bool {
	for {
		_, _, tail, ok := cutTag(text)
		switch {
		case !ok:
			return false
		case len(tail) == 0:
			return true
		case tail[0] != ',':
			return false
		}
		text = tail[1:]
	}
}

// cutTag splits off the tag key='value' and the white space around it from text. A quote in the value is
// written \'.
func cutTag(text []byte) (key, value, tail []byte, ok bool) {
	text = trimSpace(text)
	eq := 0
	for eq < len(text) && text[eq] != '=' && text[eq] != '\'' && text[eq] != ',' && !asciiSpace(text[eq]) {
		eq++
	}
	if eq == 0 || eq+1 >= len(text) || text[eq] != '=' || text[eq+1] != '\'' {
		return nil, nil, nil, false
	}
	key, text = text[:eq], text[eq+2:]
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\'':
			return key, text[:i], trimSpace(text[i+1:]), true
		}
	}
	return nil, nil, nil, false
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && asciiSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && asciiSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// unescape appends src to dst with %xx decoded and the backslash of \' and \\ removed. A percent sign without
// two hex digits stays.
func unescape(dst, src []byte) []byte {
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case c == '%' && i+2 < len(src) && isHex(src[i+1]) && isHex(src[i+2]):
			c = hexValue(src[i+1])<<4 | hexValue(src[i+2])
			i += 2
		case c == '\\' && i+1 < len(src):
			i++
			c = src[i]
		}
		dst = append(dst, c)
	}
	return dst
}

func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return (c | 0x20) - 'a' + 10
}

func asciiSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
