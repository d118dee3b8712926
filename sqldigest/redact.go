package sqldigest

import "bytes"

// AppendRedacted appends sql to dst with each literal replaced by ?, each plain comment by a
// space (after --, which a space makes a comment of its own, by an empty one), and everything
// else kept: identifiers, white space, hints and executable comments,
// which are redacted as the rest is. What the digest folds into one ? is one ? here: the sign
// of a number, the introducer or DATE before a string, adjacent strings. So the redacted text
// has the digest of sql. It does not allocate when dst has room for len(sql) more bytes.
func AppendRedacted(dst, sql []byte, m Mode) []byte {
	r := redactor{base: len(dst)}
	s := newScanner(m)
	for i := 0; i < len(sql); {
		kind, end, word, _ := s.next(sql, i, true)
		dst = r.token(dst, sql[i:end], kind, word)
		i = end
	}
	return dst
}

var (
	question = []byte{'?'}
	dashes   = []byte("--")
	blockEnd = []byte("*/")
)

// redactor is what the rules need to know of the significant tokens before.
type redactor struct {
	base  int   // where in dst the statement begins
	last  uint8 // class of the last one
	str   bool  // it was a string literal
	from  int   // where in dst it began, if it is one that a literal takes in
	signs int   // how many tokens it is, when it is tokUnary
}

func (r *redactor) token(dst, text []byte, kind Kind, word uint16) []byte {
	code, str := tokOther, false
	switch kind {
	case KindSpace, KindExecOpen, KindExecClose:
		return append(dst, text...)
	case KindComment:
		return r.comment(dst, text)
	case KindString:
		if r.str {
			return dst
		}
		if r.last == tokTemporal || r.last == tokCharset {
			dst = dst[:r.from]
		}
		code, text, str = tokValue, question, true
	case KindNumber:
		if r.last == tokUnary || r.last == tokCharset {
			dst = dst[:r.from]
		}
		code, text = tokValue, question
	case KindHost, KindParam, KindNull:
		code, text = tokValue, question
	case KindIntroducer:
		code, r.from = tokCharset, len(dst)
	case KindKeyword:
		k := &keywords[word]
		code = k.class
		switch {
		case r.last == tokAtAt:
			code = tokScope
		case code == tokTemporal:
			r.from = len(dst)
		case k.flags&isLiteral != 0 && startsLiteral>>r.last&1 != 0:
			code, text = tokValue, question
		}
	case KindOperator:
		if code = operatorClass(text); code == tokSign {
			code = r.sign(len(dst))
		}
	}
	r.last, r.str = code, str
	return append(dst, text...)
}

// comment appends what stands for a comment.
func (r *redactor) comment(dst, text []byte) []byte {
	switch {
	case !bytes.HasSuffix(dst[r.base:], dashes):
		return append(dst, ' ')
	case len(text) >= 4 && text[0] == '/' && bytes.HasSuffix(text, blockEnd):
		return append(dst, "/**/"...)
	}
	return append(dst, '#') // a line's end or the statement's is next
}

// sign returns the class of a sign that begins at from in dst.
func (r *redactor) sign(from int) uint8 {
	switch {
	case r.last == tokUnary && r.signs < maxSigns:
		r.signs++
	case r.last != tokUnary && startsExpr>>r.last&1 != 0:
		r.signs, r.from = 1, from
	default:
		return tokSign
	}
	return tokUnary
}
