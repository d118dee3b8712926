package sqlplan

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The statements of two workloads, for memory tests: every one a different statement, not another value. They
// follow the shapes of TPC-C, TPC-H and sysbench and of statements that object-relational mappers generate.

const tpchQuery = `select s_acctbal, s_name, n_name, p_partkey from part, supplier, partsupp, nation, region
where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = 15 and p_type like '%BRASS'
and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'
and ps_supplycost = (select min(ps_supplycost) from partsupp, supplier, nation, region
where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey)
order by s_acctbal desc, n_name, s_name, p_partkey limit 100`

func insertOf(size int) string {
	var b strings.Builder
	b.WriteString("insert into import_table (id, payload) values ")
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d,'%s')", i, strings.Repeat("x", 100+i%50))
	}
	return b.String()
}

// A mix returns the n-th statement of a workload.
type mix func(r *rand.Rand, n int) string

// oltp resembles sysbench, TPC-C and imports over many tables.
func oltp(r *rand.Rand, n int) string {
	switch t := n % 11; t {
	case 0:
		return fmt.Sprintf("SELECT c FROM sbtest%d WHERE id=%d", n, r.Int())
	case 1:
		return fmt.Sprintf("SELECT DISTINCT c FROM sbtest%d WHERE id BETWEEN %d AND %d ORDER BY c", n, r.Int(), r.Int())
	case 2:
		return fmt.Sprintf("UPDATE sbtest%d SET k=k+1 WHERE id=%d", n, r.Int())
	case 3:
		return fmt.Sprintf("SELECT i_price, i_name, i_data FROM item%d WHERE i_id = %d", n, r.Int())
	case 4:
		return fmt.Sprintf("SELECT count(distinct(s_i_id)) FROM order_line%d, stock WHERE ol_w_id = 1 AND s_quantity < %d", n, r.Int())
	case 5:
		return fmt.Sprintf("DELETE FROM new_orders WHERE no_o_id = 3 AND no_d_id = 4 AND w%d = 5", n)
	case 6:
		return fmt.Sprintf("INSERT INTO history%d (h_c_id, h_date, h_data) VALUES (%d, now(), 'x')", n, r.Int())
	case 7:
		if n%770 == 7 {
			return strings.Replace(insertOf(1<<uint(8+n%14)), "import_table", fmt.Sprintf("import_%d", n), 1)
		}
		return fmt.Sprintf("REPLACE INTO w%d VALUES (1,2,3),(4,5,6)", n)
	case 8:
		return strings.Replace(tpchQuery, "s_acctbal desc", fmt.Sprintf("c%d desc", n), 1)
	case 9:
		return fmt.Sprintf("BEGIN /* %d */", n)
	default:
		return fmt.Sprintf("CREATE TABLE t%d (id int primary key, v varchar(%d))", n, n%255+1)
	}
}

// mapper resembles object-relational mappers: long column lists, aliases, joins, CASE, subqueries.
func mapper(r *rand.Rand, n int) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i := range 1 + r.IntN(20) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "t%d_.column_%d AS column_%d_%d", i%5, n, i, r.IntN(10))
	}
	fmt.Fprintf(&b, " FROM app_schema_%d.entity_%d t0_", n%97, n)
	for i := range r.IntN(24) {
		fmt.Fprintf(&b, " LEFT OUTER JOIN related_table_with_a_long_name_%d_%d t%d_ ON t%d_.id = t0_.ref_%d", n, i, i+1, i+1, i)
	}
	b.WriteString(" WHERE t0_.state IN (")
	items := 1 + r.IntN(50)
	if n%500 == 3 {
		items = 20_000
	}
	for i := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, r.IntN(1000))
	}
	fmt.Fprintf(&b, ") AND CASE WHEN t0_.a%d > %d THEN 1 ELSE 0 END = 1", n, r.IntN(100))
	for i := range r.IntN(10) {
		fmt.Fprintf(&b, " AND t0_.f%d = '%x'", i, r.Uint64())
	}
	if n%3 == 0 {
		fmt.Fprintf(&b, " AND EXISTS (SELECT 1 FROM sub_%d s WHERE s.id = t0_.id)", n)
	}
	b.WriteString(" ORDER BY t0_.id DESC LIMIT 10")
	return b.String()
}
