package sqldigest

import "bytes"

// AppendRedacted appends sql to dst with each literal replaced by ?, each plain comment by a space (after --,
// which a space would turn into a comment, by an empty comment), and everything else kept: identifiers, white
// space, hints and executable comments, which are redacted like the rest. Whatever the digest folds into one
// ? is one ? here: the sign of a number, the introducer or DATE before a string, adjacent strings. So the
// redacted text has the digest of sql. It does not allocate when dst has room for len(sql) more bytes.
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

// redactor is the state that the rules require of the preceding significant tokens.
type redactor struct {
	base  int   // offset in dst where the statement begins
	last  uint8 // class of the last one
	str   bool  // it was a string literal
	from  int   // its offset in dst, if a literal absorbs it
	signs int   // number of tokens, if it is tokUnary
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

// comment appends the replacement of a comment.
func (r *redactor) comment(dst, text []byte) []byte {
	switch {
	case !bytes.HasSuffix(dst[r.base:], dashes):
		return append(dst, ' ')
	case len(text) >= 4 && text[0] == '/' && bytes.HasSuffix(text, blockEnd):
		return append(dst, "/**/"...)
	}
	return append(dst, '#') // the end of a line or of the statement follows
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
