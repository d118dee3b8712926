package activeseries

// A Form is an encoding of items in a body.
type Form uint8

const (
	// FormJSON is {"data":[…]}.
	FormJSON Form = iota
	// FormFramed is Mimir's framed form: the length of each item, followed by the item.
	FormFramed
	// FormFramedEnd is FormFramed with a record at the end: a body without it is truncated.
	FormFramedEnd
)

// Content types of the forms.
const (
	ContentTypeJSON      = "application/json"
	ContentTypeFramed    = "application/vnd.mimir.active-series-framed"
	ContentTypeFramedEnd = ContentTypeFramed + "; end=1"
)

// ContentType returns the content type of the form, with its parameter.
func (f Form) ContentType() string {
	switch f {
	case FormFramed:
		return ContentTypeFramed
	case FormFramedEnd:
		return ContentTypeFramedEnd
	}
	return ContentTypeJSON
}
