package activeseries

// A Form is how a body writes items.
type Form uint8

const (
	// FormJSON is {"data":[…]}.
	FormJSON Form = iota
	// FormFramed is Mimir's framed form: for each item its length and the item.
	FormFramed
	// FormFramedEnd is FormFramed with a record at the end: what does not end with one is
	// truncated.
	FormFramedEnd

	formsEnd
)

// Content types of the forms.
const (
	ContentTypeJSON      = "application/json"
	ContentTypeFramed    = "application/vnd.mimir.active-series-framed"
	ContentTypeFramedEnd = ContentTypeFramed + "; end=1"
)

// ContentType is the form's, with its parameter.
func (f Form) ContentType() string {
	switch f {
	case FormFramed:
		return ContentTypeFramed
	case FormFramedEnd:
		return ContentTypeFramedEnd
	}
	return ContentTypeJSON
}
