package embedded

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Numbers of rows in the shop; the workload draws its keys from these ranges.
//
// The engine serves an index lookup by scanning the whole table, and so does an insert into a table with a
// primary key. So the tables that are read by key are small, and most rows are in visits, a log without a
// primary key.
const (
	Customers     = 500
	Products      = 300
	Orders        = 1000
	itemsPerOrder = 2 // at least 1, at most 3, 2 on average
	visits        = 6200
)

// rowsPerInsert limits a filling statement to some tens of kilobytes.
const rowsPerInsert = 500

// shopSeed makes the shop the same at each start, so that the demo is repeatable.
const shopSeed = 1

func shopSchema() []string {
	return []string{
		`CREATE TABLE customers (
			id INT NOT NULL PRIMARY KEY, name VARCHAR(64) NOT NULL, email VARCHAR(128) NOT NULL,
			city VARCHAR(64) NOT NULL, created DATETIME NOT NULL, UNIQUE KEY email (email))`,
		`CREATE TABLE products (
			id INT NOT NULL PRIMARY KEY, name VARCHAR(64) NOT NULL, category VARCHAR(32) NOT NULL,
			price DECIMAL(10,2) NOT NULL, stock INT NOT NULL, KEY category (category))`,
		`CREATE TABLE orders (
			id INT NOT NULL PRIMARY KEY, customer_id INT NOT NULL, status VARCHAR(16) NOT NULL,
			total DECIMAL(10,2) NOT NULL, placed DATETIME NOT NULL, KEY customer (customer_id))`,
		`CREATE TABLE order_items (
			order_id INT NOT NULL, line INT NOT NULL, product_id INT NOT NULL,
			quantity INT NOT NULL, price DECIMAL(10,2) NOT NULL, PRIMARY KEY (order_id, line))`,
		`CREATE TABLE visits (
			customer_id INT NOT NULL, product_id INT NOT NULL, at DATETIME NOT NULL)`,
		`CREATE TABLE carts (
			customer_id INT NOT NULL, product_id INT NOT NULL, quantity INT NOT NULL,
			PRIMARY KEY (customer_id, product_id))`,
	}
}

// fillShop creates the tables and their rows through exec and returns the number of rows.
func fillShop(exec func(stmt string) error) (int, error) {
	for _, stmt := range shopSchema() {
		if err := exec(stmt); err != nil {
			return 0, fmt.Errorf("create the shop: %w", err)
		}
	}
	f := filler{exec: exec, rng: rand.New(rand.NewPCG(shopSeed, shopSeed))}
	f.customers()
	f.products()
	f.orders()
	f.items()
	f.visits()
	if f.err != nil {
		return 0, fmt.Errorf("fill the shop: %w", f.err)
	}
	return f.rows, nil
}

// A filler writes rows in multi-row INSERTs; after an error it does nothing more.
type filler struct {
	exec func(stmt string) error
	rng  *rand.Rand
	err  error
	rows int // written so far

	stmt    []byte
	pending int // rows in stmt
}

func (f *filler) customers() {
	cities := []string{"Berlin", "Bogota", "Kyoto", "Lagos", "Lisbon", "Oslo", "Perth", "Quito"}
	for id := 1; id <= Customers; id++ {
		n := strconv.Itoa(id)
		f.add("customers", strconv.AppendInt(nil, int64(id), 10),
			quoted("customer "+n), quoted("customer"+n+"@shop.example"), quoted(pick(f.rng, cities)), f.date())
	}
	f.flush()
}

func (f *filler) products() {
	categories := []string{"books", "garden", "games", "kitchen", "music", "tools"}
	for id := 1; id <= Products; id++ {
		category := pick(f.rng, categories)
		f.add("products", strconv.AppendInt(nil, int64(id), 10),
			quoted(strings.TrimSuffix(category, "s")+" item "+strconv.Itoa(id)), quoted(category), f.price(), f.number(10_000))
	}
	f.flush()
}

func (f *filler) orders() {
	states := []string{"new", "paid", "packed", "shipped", "delivered"}
	for id := 1; id <= Orders; id++ {
		f.add("orders", strconv.AppendInt(nil, int64(id), 10),
			f.number(Customers), quoted(pick(f.rng, states)), f.price(), f.date())
	}
	f.flush()
}

func (f *filler) items() {
	for order := 1; order <= Orders; order++ {
		for line := range 1 + f.rng.IntN(2*itemsPerOrder-1) {
			f.add("order_items", strconv.AppendInt(nil, int64(order), 10), strconv.AppendInt(nil, int64(line+1), 10),
				f.number(Products), f.number(5), f.price())
		}
	}
	f.flush()
}

func (f *filler) visits() {
	for range visits {
		f.add("visits", f.number(Customers), f.number(Products), f.date())
	}
	f.flush()
}

// add appends one row, whose values are SQL literals, to the current statement.
func (f *filler) add(table string, values ...[]byte) {
	if f.pending == 0 {
		f.stmt = append(f.stmt[:0], "INSERT INTO "+table+" VALUES "...)
	} else {
		f.stmt = append(f.stmt, ',')
	}
	for i, v := range values {
		if i == 0 {
			f.stmt = append(f.stmt, '(')
		} else {
			f.stmt = append(f.stmt, ',')
		}
		f.stmt = append(f.stmt, v...)
	}
	f.stmt = append(f.stmt, ')')
	if f.pending++; f.pending == rowsPerInsert {
		f.flush()
	}
}

func (f *filler) flush() {
	if f.err == nil && f.pending > 0 {
		f.err = f.exec(string(f.stmt))
		f.rows += f.pending
	}
	f.pending = 0
}

// number returns a literal from 1 to n.
func (f *filler) number(n int) []byte { return strconv.AppendInt(nil, int64(1+f.rng.IntN(n)), 10) }

// price returns a literal from 1.00 to 200.99.
func (f *filler) price() []byte {
	return fmt.Appendf(nil, "%d.%02d", 1+f.rng.IntN(200), f.rng.IntN(100))
}

// date returns a literal within 2025.
func (f *filler) date() []byte {
	return fmt.Appendf(nil, "'2025-%02d-%02d %02d:%02d:00'", 1+f.rng.IntN(12), 1+f.rng.IntN(28), f.rng.IntN(24), f.rng.IntN(60))
}

// quoted returns s as a literal; the shop's words require no escaping.
func quoted(s string) []byte { return []byte("'" + s + "'") }

func pick(rng *rand.Rand, from []string) string { return from[rng.IntN(len(from))] }
