package web

import (
	"html"
	"html/template"
	"strings"

	"github.com/taredb/tare/sqldigest"
)

// highlight marks up a statement: keywords, names, and what stands for literals. The text is
// foreign; every byte of it is escaped.
func highlight(text string) template.HTML {
	var b strings.Builder
	b.Grow(2 * len(text))
	var l sqldigest.Lexer
	l.Reset([]byte(text), 0)
	for t := l.Next(); t.Kind != sqldigest.KindEOF; t = l.Next() {
		piece := html.EscapeString(strings.ToValidUTF8(text[t.Start:t.End], "\uFFFD"))
		if class := tokenClass(t.Kind); class != "" {
			b.WriteString(`<span class="` + class + `">` + piece + `</span>`)
			continue
		}
		b.WriteString(piece)
	}
	return template.HTML(b.String())
}

func tokenClass(k sqldigest.Kind) string {
	switch k {
	case sqldigest.KindKeyword:
		return "k"
	case sqldigest.KindIdent, sqldigest.KindQuotedIdent, sqldigest.KindVariable, sqldigest.KindHost:
		return "i"
	case sqldigest.KindString, sqldigest.KindNumber, sqldigest.KindParam, sqldigest.KindNull, sqldigest.KindEllipsis, sqldigest.KindIntroducer:
		return "v"
	case sqldigest.KindComment, sqldigest.KindHintOpen, sqldigest.KindHintClose, sqldigest.KindExecOpen, sqldigest.KindExecClose:
		return "q"
	}
	return ""
}
