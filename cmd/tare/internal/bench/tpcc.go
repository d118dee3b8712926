package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// Sizes of one warehouse: TPC-C's, divided by thirty for customers and by a hundred for items, so that a
// warehouse is filled in a second.
const (
	tpccDistricts = 10
	tpccCustomers = 100 // per district
	tpccItems     = 1000
)

// tpccTables is TPC-C's schema without the columns that no statement below reads.
func tpccTables(o *OLTPOptions) []table {
	w := o.Warehouses
	// split numbers the parts of row i: the last one counts fastest, all from 1.
	split := func(i int, sizes ...int) []int {
		parts := make([]int, len(sizes))
		for n := len(sizes) - 1; n >= 0; n-- {
			parts[n] = 1 + i%sizes[n]
			i /= sizes[n]
		}
		return parts
	}
	return []table{
		{
			name:   "tpcc_item",
			create: "CREATE TABLE tpcc_item (i_id INT NOT NULL PRIMARY KEY, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5,2) NOT NULL)",
			rows:   tpccItems,
			row:    func(dst []byte, i int) []byte { return fmt.Appendf(dst, "(%d,'item %d',%d.50)", i+1, i+1, 1+i%99) },
		},
		{
			name:   "tpcc_warehouse",
			create: "CREATE TABLE tpcc_warehouse (w_id INT NOT NULL PRIMARY KEY, w_name VARCHAR(10) NOT NULL, w_tax DECIMAL(4,4) NOT NULL, w_ytd DECIMAL(14,2) NOT NULL)",
			rows:   w,
			row:    func(dst []byte, i int) []byte { return fmt.Appendf(dst, "(%d,'w%d',0.0500,0)", i+1, i+1) },
		},
		{
			name:   "tpcc_district",
			create: "CREATE TABLE tpcc_district (d_w_id INT NOT NULL, d_id INT NOT NULL, d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(14,2) NOT NULL, d_next_o_id INT NOT NULL, PRIMARY KEY (d_w_id, d_id))",
			rows:   w * tpccDistricts,
			row: func(dst []byte, i int) []byte {
				p := split(i, w, tpccDistricts)
				return fmt.Appendf(dst, "(%d,%d,0.0800,0,1)", p[0], p[1])
			},
		},
		{
			name:   "tpcc_customer",
			create: "CREATE TABLE tpcc_customer (c_w_id INT NOT NULL, c_d_id INT NOT NULL, c_id INT NOT NULL, c_last VARCHAR(16) NOT NULL, c_discount DECIMAL(4,4) NOT NULL, c_balance DECIMAL(12,2) NOT NULL, c_payment_cnt INT NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id))",
			rows:   w * tpccDistricts * tpccCustomers,
			row: func(dst []byte, i int) []byte {
				p := split(i, w, tpccDistricts, tpccCustomers)
				return fmt.Appendf(dst, "(%d,%d,%d,'name %d',0.1000,-10,1)", p[0], p[1], p[2], p[2])
			},
		},
		{
			name:   "tpcc_stock",
			create: "CREATE TABLE tpcc_stock (s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity INT NOT NULL, s_ytd INT NOT NULL, s_order_cnt INT NOT NULL, PRIMARY KEY (s_w_id, s_i_id))",
			rows:   w * tpccItems,
			row: func(dst []byte, i int) []byte {
				p := split(i, w, tpccItems)
				return fmt.Appendf(dst, "(%d,%d,%d,0,0)", p[0], p[1], 10+i%90)
			},
		},
		{
			name:   "tpcc_orders",
			create: "CREATE TABLE tpcc_orders (o_w_id INT NOT NULL, o_d_id INT NOT NULL, o_id INT NOT NULL, o_c_id INT NOT NULL, o_entry_d DATETIME NOT NULL, o_ol_cnt INT NOT NULL, PRIMARY KEY (o_w_id, o_d_id, o_id), KEY customer (o_w_id, o_d_id, o_c_id, o_id))",
		},
		{
			name:   "tpcc_order_line",
			create: "CREATE TABLE tpcc_order_line (ol_w_id INT NOT NULL, ol_d_id INT NOT NULL, ol_o_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT NOT NULL, ol_quantity INT NOT NULL, ol_amount DECIMAL(6,2) NOT NULL, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
		},
		{
			name:   "tpcc_history",
			create: "CREATE TABLE tpcc_history (h_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, h_c_w_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_id INT NOT NULL, h_date DATETIME NOT NULL, h_amount DECIMAL(6,2) NOT NULL)",
		},
	}
}

// tpcc is three of TPC-C's five transactions, in TPC-C's proportion: 45 new orders and 43 payments to 4
// order-status queries.
func tpcc(o *OLTPOptions) operation {
	return func(ctx context.Context, s *connection, rng *rand.Rand) error {
		w, d, c := key(rng, o.Warehouses), key(rng, tpccDistricts), key(rng, tpccCustomers)
		switch n := rng.IntN(45 + 43 + 4); {
		case n < 45:
			return s.transaction(ctx, func() error { return newOrder(ctx, s, rng, w, d, c) })
		case n < 45+43:
			return s.transaction(ctx, func() error { return payment(ctx, s, rng, w, d, c) })
		default:
			return s.transaction(ctx, func() error { return orderStatus(ctx, s, w, d, c) })
		}
	}
}

func newOrder(ctx context.Context, s *connection, rng *rand.Rand, w, d, c int64) error {
	if err := s.run(ctx, "SELECT w_tax FROM tpcc_warehouse WHERE w_id = ?", w); err != nil {
		return err
	}
	order, err := s.runInt(ctx, []mysqlwire.ValueType{{Type: mysqlwire.TypeLong}, {Type: mysqlwire.TypeNewDecimal}}, "SELECT d_next_o_id, d_tax FROM tpcc_district WHERE d_w_id = ? AND d_id = ? FOR UPDATE", w, d)
	if err != nil {
		return err
	}
	if err := s.run(ctx, "UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?", w, d); err != nil {
		return err
	}
	if err := s.run(ctx, "SELECT c_discount, c_last FROM tpcc_customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", w, d, c); err != nil {
		return err
	}
	lines := int64(5 + rng.IntN(11))
	if err := s.run(ctx, "INSERT INTO tpcc_orders VALUES (?, ?, ?, ?, NOW(), ?)", w, d, order, c, lines); err != nil {
		return err
	}
	for line := range lines {
		item, quantity := key(rng, tpccItems), key(rng, 10)
		if err := s.run(ctx, "SELECT i_price, i_name FROM tpcc_item WHERE i_id = ?", item); err != nil {
			return err
		}
		stock, err := s.runInt(ctx, []mysqlwire.ValueType{{Type: mysqlwire.TypeLong}}, "SELECT s_quantity FROM tpcc_stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE", w, item)
		if err != nil {
			return err
		}
		if stock -= quantity; stock < 10 {
			stock += 91
		}
		if err := s.run(ctx, "UPDATE tpcc_stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1 WHERE s_w_id = ? AND s_i_id = ?", stock, quantity, w, item); err != nil {
			return err
		}
		if err := s.run(ctx, "INSERT INTO tpcc_order_line VALUES (?, ?, ?, ?, ?, ?, ?)", w, d, order, line+1, item, quantity, strconv.FormatInt(quantity*7, 10)); err != nil {
			return err
		}
	}
	return nil
}

func payment(ctx context.Context, s *connection, rng *rand.Rand, w, d, c int64) error {
	amount := strconv.Itoa(1+rng.IntN(4999)) + ".25"
	if err := s.run(ctx, "UPDATE tpcc_warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", amount, w); err != nil {
		return err
	}
	if err := s.run(ctx, "UPDATE tpcc_district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?", amount, w, d); err != nil {
		return err
	}
	if err := s.run(ctx, "SELECT c_last, c_balance FROM tpcc_customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE", w, d, c); err != nil {
		return err
	}
	if err := s.run(ctx, "UPDATE tpcc_customer SET c_balance = c_balance - ?, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", amount, w, d, c); err != nil {
		return err
	}
	return s.run(ctx, "INSERT INTO tpcc_history (h_c_w_id, h_c_d_id, h_c_id, h_date, h_amount) VALUES (?, ?, ?, NOW(), ?)", w, d, c, amount)
}

func orderStatus(ctx context.Context, s *connection, w, d, c int64) error {
	if err := s.run(ctx, "SELECT c_balance, c_last FROM tpcc_customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", w, d, c); err != nil {
		return err
	}
	order, err := s.runInt(ctx, []mysqlwire.ValueType{{Type: mysqlwire.TypeLong}, {Type: mysqlwire.TypeDatetime}}, "SELECT o_id, o_entry_d FROM tpcc_orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1", w, d, c)
	if err != nil || order == 0 {
		return err // a customer without an order has no further queries
	}
	return s.run(ctx, "SELECT ol_i_id, ol_quantity, ol_amount FROM tpcc_order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?", w, d, order)
}
