package activeseries

import (
	"strconv"
	"strings"
)

const (
	// maxWarnings bounds the warnings of a body; one more has the number of those left out.
	maxWarnings = 32

	// MaxWarningText bounds the text of a warning, in bytes.
	MaxWarningText = 300

	// maxMergedWarnings bounds the warnings of a merged response.
	maxMergedWarnings = 256
)

// incompleteWords are the parts of a member's name, or of a status, that say that a response is incomplete.
var incompleteWords = [...]string{"warn", "partial", "incomplete", "truncat", "missing", "degraded", "infos"}

// saysIncomplete reports whether text has one of incompleteWords, in any case. It does not allocate.
func saysIncomplete(text []byte) bool {
	for _, w := range incompleteWords {
		if containsFold(text, w) {
			return true
		}
	}
	return false
}

// containsFold reports whether text contains word, which is in lower case, in any case of its ASCII letters.
func containsFold(text []byte, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		j := 0
		for j < len(word) && text[i+j]|0x20 == word[j] {
			j++
		}
		if j == len(word) {
			return true
		}
	}
	return false
}

// A warningList has up to a number of warnings, and counts the others.
type warningList struct {
	texts []string
	more  int
}

// add adds a warning, or counts it if there are too many.
func (l *warningList) add(most int, text string) {
	if len(l.texts) >= most {
		l.more++
		return
	}
	l.texts = append(l.texts, text)
}

// maxWarningName bounds the name of a member in its warnings.
const maxWarningName = 64

// list returns the warnings, and the number of those left out as the last.
func (l *warningList) list() []string {
	if l.more == 0 {
		return l.texts
	}
	return append(l.texts[:len(l.texts):len(l.texts)], strconv.Itoa(l.more)+" more warnings")
}

// warnText adds the value of the current member, or a string inside of it, with its quotes.
func (m *members) warnText(quoted []byte) {
	if m.member != memberWarning || len(quoted) == len(`""`) {
		return
	}
	if len(m.warnings.texts) >= maxWarnings {
		m.warnings.more++
		return // without a copy of a long text
	}
	m.warn(m.label, unquote(quoted))
}

// warn adds a warning of the member of that name: the text itself for "warnings".
func (m *members) warn(name, text string) {
	if name != "warnings" {
		text = name + ": " + text
	}
	m.warnings.add(maxWarnings, brief(text, MaxWarningText))
}

// warnScalar adds the value of the current member, or a value inside of it, that is a number, true or false.
func (m *members) warnScalar(text []byte) {
	if m.member != memberWarning && m.member != memberComplete {
		return
	}
	none := string(text) == "false" || strings.Trim(string(text), "-0.") == ""
	if m.member == memberWarning && !none || m.member == memberComplete && none {
		m.warn(m.label, string(text))
	}
}

// warn adds the warnings of a source to the response.
func (b *Body) warn(s *Source, texts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range texts {
		b.out.warnings.add(maxMergedWarnings, "shard "+s.Shard+": "+text)
	}
}

// Warnings returns the warnings of sources about incomplete responses, with their names: see Decoder. The
// response has them in its member "warnings". They are complete after WriteTo, or after
// Read has returned io.EOF.
func (b *Body) Warnings() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.warnings.list()
}
