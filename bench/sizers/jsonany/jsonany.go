package jsonany

//go:generate go run github.com/taredb/tare/sizegen .

// A Document is what encoding/json decodes into an any.
//
//sizegen:root
type Document struct{ Value any }
