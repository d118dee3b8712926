package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// A shape is one action of a client.
type shape struct {
	name   string
	weight int // picks out of the sum of all weights

	// provoked is the MySQL error number that run causes, or 0.
	provoked mysqlwire.Errno

	run func(ctx context.Context, c *client) error
}

// The error numbers that shapes provoke.
const (
	errDuplicateEntry = 1062
	errNoSuchTable    = 1146
)

// Slow shapes have small weights: each second they occupy a client is a second in which it sends nothing
// else. One is slow deliberately, for a new user to find on the pages: it joins and sorts tens of thousands
// of rows to show twenty.
func shapes() []shape {
	return []shape{
		{name: "customer by key", weight: 300, run: customerByKey},
		{name: "product by key, prepared", weight: 300, run: productPrepared},
		{name: "products by keys", weight: 100, run: productsByKeys},
		{name: "orders of a customer", weight: 100, run: ordersOfCustomer},
		{name: "items of an order", weight: 40, run: itemsOfOrder},
		{name: "orders by status", weight: 20, run: ordersByStatus},
		{name: "search by text", weight: 30, run: searchByText},
		{name: "put into cart, prepared", weight: 60, run: putIntoCart},
		{name: "empty the cart", weight: 20, run: emptyCart},
		{name: "checkout, a transaction", weight: 30, run: checkout},
		{name: "visits by category, heavy", weight: 2, run: visitsByCategory},
		{name: "seen together, slow on purpose", weight: 2, run: seenTogether},
		{name: "taken address, an error", weight: 8, provoked: errDuplicateEntry, run: takenAddress},
		{name: "missing table, an error", weight: 4, provoked: errNoSuchTable, run: missingTable},
	}
}

func customerByKey(ctx context.Context, c *client) error {
	return c.exec(ctx, "SELECT id, name, email, city FROM customers WHERE id = "+c.key(c.shop.Customers))
}

func productPrepared(ctx context.Context, c *client) error {
	return c.execute(ctx, c.product, c.pick(c.shop.Products))
}

func productsByKeys(ctx context.Context, c *client) error {
	keys := make([]string, 2+c.rng.IntN(8))
	for i := range keys {
		keys[i] = c.key(c.shop.Products)
	}
	return c.exec(ctx, "SELECT id, name, price FROM products WHERE id IN ("+strings.Join(keys, ", ")+")")
}

// ordersOfCustomer lists orders. A bad release queries the items of each of them, too.
func ordersOfCustomer(ctx context.Context, c *client) error {
	err := c.exec(ctx, "SELECT id, status, total, placed FROM orders WHERE customer_id = "+c.key(c.shop.Customers)+
		" ORDER BY placed DESC LIMIT 10")
	for range listedOrders {
		if err != nil || !c.release.Load() {
			return err
		}
		err = itemsOfOrder(ctx, c)
	}
	return err
}

// listedOrders is the number of orders whose items a bad release queries.
const listedOrders = 10

func itemsOfOrder(ctx context.Context, c *client) error {
	return c.exec(ctx, "SELECT i.line, p.name, i.quantity, i.price FROM order_items i"+
		" JOIN products p ON p.id = i.product_id WHERE i.order_id = "+c.key(c.shop.Orders)+" ORDER BY i.line")
}

func ordersByStatus(ctx context.Context, c *client) error {
	return c.exec(ctx, "SELECT status, COUNT(*), SUM(total) FROM orders GROUP BY status")
}

func searchByText(ctx context.Context, c *client) error {
	return c.exec(ctx, "SELECT id, name, price FROM products WHERE name LIKE '%"+c.key(100)+"%' LIMIT 20")
}

func putIntoCart(ctx context.Context, c *client) error {
	return c.execute(ctx, c.toCart, c.pick(c.shop.Customers), c.pick(c.shop.Products), 1+c.rng.IntN(3))
}

func emptyCart(ctx context.Context, c *client) error {
	return c.exec(ctx, "DELETE FROM carts WHERE customer_id = "+c.key(c.shop.Customers))
}

func visitsByCategory(ctx context.Context, c *client) error {
	return c.exec(ctx, "SELECT p.category, COUNT(*) FROM visits v JOIN products p ON p.id = v.product_id GROUP BY p.category")
}

// seenTogether pairs visits of the same product and sorts the pairs: neither is indexed.
func seenTogether(ctx context.Context, c *client) error {
	return c.exec(ctx, "SELECT a.at, a.customer_id, b.customer_id AS other FROM visits a JOIN visits b ON b.product_id = a.product_id"+
		" WHERE a.customer_id <= 120 ORDER BY b.at DESC LIMIT 20")
}

// takenAddress adds a customer with a duplicate key.
func takenAddress(ctx context.Context, c *client) error {
	id := c.key(c.shop.Customers)
	return c.exec(ctx, "INSERT INTO customers (id, name, email, city, created) VALUES ("+
		id+", 'customer "+id+"', 'customer"+id+"@shop.example', 'Oslo', '2025-01-01 00:00:00')")
}

func missingTable(ctx context.Context, c *client) error {
	return c.exec(ctx, "SELECT id FROM wishlists WHERE customer_id = "+c.key(c.shop.Customers))
}

// checkout reads a product's stock, decrements it and marks an order, in one transaction. Clients take turns:
// of two transactions that write one table the embedded engine keeps only the later one.
func checkout(ctx context.Context, c *client) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	for _, sql := range []string{
		"START TRANSACTION", "UPDATE products SET stock = stock - 1 WHERE id = " + c.key(c.shop.Products),
		"UPDATE orders SET status = 'paid' WHERE id = " + c.key(c.shop.Orders), "COMMIT",
	} {
		if err := c.exec(ctx, sql); err != nil {
			_, _ = c.conn.Exec(ctx, "ROLLBACK") // the statement's error is more informative
			return err
		}
	}
	return nil
}

// picker chooses shapes by weight.
type picker struct {
	shapes []shape
	total  int
}

func newPicker() picker {
	p := picker{shapes: shapes()}
	for _, s := range p.shapes {
		p.total += s.weight
	}
	return p
}

func (p picker) pick(rng *rand.Rand) *shape {
	n := rng.IntN(p.total)
	for i := range p.shapes {
		if n -= p.shapes[i].weight; n < 0 {
			return &p.shapes[i]
		}
	}
	panic(fmt.Sprintf("BUG: %d picks are left of a total of %d", n, p.total))
}

// pick returns a key from 1 to n.
func (c *client) pick(n int) int { return 1 + c.rng.IntN(n) }

// key returns a key from 1 to n as a literal.
func (c *client) key(n int) string { return strconv.Itoa(c.pick(n)) }
