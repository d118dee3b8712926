// Package embedded is the database behind `tare demo`: a MySQL-compatible engine in
// memory, filled with a small shop, on a TCP address.
//
// Terms: the shop is one schema of six tables (customers, products, orders,
// order_items, visits, carts) whose content is the same at every start; it holds some
// 10,000 rows, and no cart is filled yet.
//
//	Start ── engine (go-mysql-server, in memory) ── shop filled by SQL ── listener
//	                                                                         │
//	                                         MySQL clients, or a gateway ────┘
//
// It keeps nothing on disk, asks for no password and accepts any user name, which is why
// it should listen on loopback only. It is no reference for MySQL's behaviour: its
// transactions see the tables as they stood at BEGIN, and of two writers to one table the
// later commit wins as a whole. Statements take turns at the tables (turns.go); some 1,500
// a second are answered.
//
// A binary that links this package pays for it at every start: the engine compiles its
// regular expression library (ICU, as WebAssembly) before main runs, 0.3 to 0.5 s and
// about 74 MB. For that reason only cmd/tare-demo imports it.
//
// Specification: the MySQL dialect of github.com/dolthub/go-mysql-server v0.20.
package embedded
