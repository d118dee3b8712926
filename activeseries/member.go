package activeseries

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// A member is one of the body's that mean something.
type member uint8

const (
	memberOther member = iota
	memberData
	memberStatus
	memberErrorType
	memberError
)

// members is what the body's members told so far.
type members struct {
	member member // the present one
	data   bool   // there was a "data"
	failed bool   // a failure is reported
	kind   string // of the failure
	said   string // about the failure
}

// name takes the name of the next member: a valid string with its quotes.
func (m *members) name(quoted []byte) verdict {
	m.member = memberOther
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(quoted))
	}
	switch string(name) {
	case "data":
		if m.data {
			return secondData
		}
		m.member, m.data = memberData, true
	case "status":
		m.member = memberStatus
	case "errorType":
		m.member = memberErrorType
	case "error":
		m.member = memberError
	}
	return good
}

// text takes the value of the present member: a valid string with its quotes.
func (m *members) text(quoted []byte) {
	switch m.member {
	case memberStatus:
		m.failed = m.failed || unquote(quoted) == "error"
	case memberErrorType:
		m.kind = brief(unquote(quoted))
	case memberError:
		if text := unquote(quoted); text != "" {
			m.failed, m.said = true, brief(text)
		}
	default:
		panic("BUG: the text of a member that has none")
	}
}

// notText takes a value of the present member that is neither a string nor null.
func (m *members) notText() {
	if m.member == memberError && !m.failed {
		m.failed, m.said = true, "an error that is not a string"
	}
}

// result is what a valid body comes to that ends at offset.
func (m *members) result(offset int64) error {
	switch {
	case m.failed:
		return &ReportedError{Type: m.kind, Text: m.said}
	case !m.data:
		return newError(noData, offset, nil)
	}
	return io.EOF
}

// unquote is the text of a valid JSON string. What escapes do not make a code point of is U+FFFD.
func unquote(quoted []byte) string {
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		panic("BUG: unquote a string that is not valid: " + err.Error())
	}
	return text
}

// brief is the beginning of text, valid UTF-8.
func brief(text string) string {
	if len(text) <= MaxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxErrorText], "")
}
