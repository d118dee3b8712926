package jsonany

import "encoding/json"

// Decode returns a document from JSON.
func Decode(text string) (*Document, error) {
	d := new(Document)
	return d, json.Unmarshal([]byte(text), &d.Value)
}
