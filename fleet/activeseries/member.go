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
	memberWarning  // about an incomplete response
	memberComplete // says whether anything is
)

// members is the state of the body's members so far.
type members struct {
	member  member // current member
	data    bool   // "data" was present
	failed  bool   // a failure is reported
	kind    string // type of the failure
	message string // text of the failure

	label    string // name of the current memberWarning or memberComplete
	warnings warningList
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
	case "warnings":
		m.member, m.label = memberWarning, "warnings"
	case "infos":
		m.member, m.label = memberWarning, "infos"
	case "isPartial":
		m.member, m.label = memberWarning, "isPartial"
	default:
		switch {
		case saysIncomplete(name):
			m.member = memberWarning
		case containsFold(name, "complete"):
			m.member = memberComplete
		default:
			return good
		}
		m.label = strings.ToValidUTF8(string(name[:min(len(name), maxWarningName)]), "")
	}
	return good
}

// text sets the value of the current member to a valid string with its quotes.
func (m *members) text(quoted []byte) {
	switch m.member {
	case memberStatus:
		if string(quoted) == `"success"` {
			return
		}
		status := unquote(quoted)
		m.failed = m.failed || status == "error"
		if saysIncomplete([]byte(status)) {
			m.warn("status", status)
		}
	case memberErrorType:
		m.kind = brief(unquote(quoted), maxErrorText)
	case memberError:
		if text := unquote(quoted); text != "" {
			m.failed, m.message = true, brief(text, maxErrorText)
		}
	case memberWarning:
		m.warnText(quoted)
	case memberComplete:
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

// brief returns the start of text, of at most most bytes, as valid UTF-8.
func brief(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
