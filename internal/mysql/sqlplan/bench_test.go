package sqlplan

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func BenchmarkGet(b *testing.B) {
	p := newPlanner(b)
	c := client{schema: "shop", user: "app"}
	st := c.statement(p, "select c from sbtest1 where id = 5")
	p.Plan(st)
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if p.Get(st.Digest, st.Scope) == nil {
				b.Fatal("miss")
			}
		}
	})
	b.Run("hit/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if p.Get(st.Digest, st.Scope) == nil {
					b.Error("miss")
					return
				}
			}
		})
	})
}

func BenchmarkScopeOf(b *testing.B) {
	p := newPlanner(b)
	schema, user := []byte("shop"), []byte("app")
	b.ReportAllocs()
	for b.Loop() {
		p.ScopeOf(schema, user, 0)
	}
}

func BenchmarkDivergent(b *testing.B) {
	sql := []byte(tpchQuery)
	b.ReportAllocs()
	b.SetBytes(int64(len(sql)))
	for b.Loop() {
		if sqldigest.Divergent(sql, 0) {
			b.Fatal("divergent")
		}
	}
}

// BenchmarkPlan creates plans: the cost of a cache miss.
func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct{ name, sql string }{
		{"point select", "select c from sbtest1 where id = 5"},
		{"insert of 2 MB", insertOf(2 << 20)},
		{"join", tpchQuery},
		{"create table", "create table t (id bigint unsigned not null auto_increment primary key, a varchar(30) default 'x' comment 'c', b decimal(10,2), e enum('a','b'), key (a(10))) engine=InnoDB default charset=utf8mb4"},
		{"unparsed", "delete from t where a = 1 returning id"},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newPlanner(b)
			cl := client{schema: "shop", user: "app"}
			st := cl.statement(p, c.sql)
			b.ReportAllocs()
			b.SetBytes(int64(len(st.Text)))
			for b.Loop() {
				p.Invalidate()
				p.Plan(st)
			}
		})
	}
}
