// Package embedded is the database behind `tare demo`: a MySQL-compatible engine in
// memory, filled with a small shop, on a TCP address.
//
// Terms: the shop is one schema of six tables (customers, products, orders, order_items, visits, carts) whose
// content is the same at every start; it has some 10,000 rows, and no cart is filled.
//
//	Start ── engine (go-mysql-server, in memory) ── shop filled by SQL ── listener
//	                                                                         │
//	                                         MySQL clients, or a gateway ────┘
//
// The engine stores nothing on disk, requires no password and accepts any user name, so it should listen on
// loopback only. It is not a reference for MySQL's behavior: its transactions see the tables as of BEGIN, and
// of two writers to one table the later commit replaces the whole table. Statements take turns at the tables
// (turns.go); it serves some 1,500 statements per second.
//
// Linking this package slows every start of a binary: the engine compiles its regular expression library
// (ICU, as WebAssembly) before main runs, which takes 0.3 to 0.5 s and about 74 MB. Therefore only
// cmd/tare-demo imports it.
//
// Specification: the MySQL dialect of github.com/dolthub/go-mysql-server v0.20.
package embedded
