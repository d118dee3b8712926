package activeseries

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// A member is a member of the body's object that has a meaning.
type member uint8

const (
	memberOther member = iota
	memberData
	memberStatus
	memberErrorType
	memberError
)

// members is the state of the body's members so far.
type members struct {
	member  member // current member
	data    bool   // "data" was present
	failed  bool   // a failure is reported
	kind    string // type of the failure
	message string // text of the failure
}

// name starts the member with the given name, a valid string with its quotes.
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

// text sets the value of the current member to a valid string with its quotes.
func (m *members) text(quoted []byte) {
	switch m.member {
	case memberStatus:
		m.failed = m.failed || unquote(quoted) == "error"
	case memberErrorType:
		m.kind = brief(unquote(quoted))
	case memberError:
		if text := unquote(quoted); text != "" {
			m.failed, m.message = true, brief(text)
		}
	default:
		panic("BUG: the text of a member that has none")
	}
}

// notText sets the value of the current member to one that is neither a string nor null.
func (m *members) notText() {
	if m.member == memberError && !m.failed {
		m.failed, m.message = true, "an error that is not a string"
	}
}

// result returns the error of a valid body that ends at offset.
func (m *members) result(offset int64) error {
	switch {
	case m.failed:
		return &ReportedError{Type: m.kind, Text: m.message}
	case !m.data:
		return newError(noData, offset, nil)
	}
	return io.EOF
}

// unquote returns the text of a valid JSON string. Invalid code points in escapes become U+FFFD.
func unquote(quoted []byte) string {
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		panic("BUG: unquote a string that is not valid: " + err.Error())
	}
	return text
}

// brief returns the start of text, as valid UTF-8.
func brief(text string) string {
	if len(text) <= MaxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxErrorText], "")
}
