package jsonany

//go:generate go run github.com/taredb/tare/sizegen .

// A Document holds a value that encoding/json decoded into an any.
//
//sizegen:root
type Document struct{ Value any }
