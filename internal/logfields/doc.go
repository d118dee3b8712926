// Command logfields generates the code and documentation of the query log's fields from the table fields.txt:
// the writer of each kind of record, the values of its fields for filters, the columns of the Live page, and
// the tables of docs/reference/query-log.md.
//
//	go generate ./internal/logfields
package main

//go:generate go run .
