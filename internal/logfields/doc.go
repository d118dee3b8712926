// Command logfields writes, from the one table fields.txt, what the query log's records have in
// common: the writer of each kind of record, the values of its fields for filters, the columns of
// the Live page, and the tables of docs/reference/query-log.md.
//
//	go generate ./internal/logfields
package main

//go:generate go run .
