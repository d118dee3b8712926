package sqldigest

import (
	"bytes"
	"fmt"
	"testing"
)

// Statements of the benchmarks and the allocation table.
const (
	shortSelect = "SELECT id, name FROM users WHERE age > 21 AND city = 'Paris' AND score BETWEEN 1.5 AND 9 LIMIT 10;"
	pointSelect = "SELECT c FROM sbtest1 WHERE id=500123"
	ormSelect   = "SELECT `users`.`id`, `users`.`email`, `users`.`first_name`, `users`.`last_name`, `users`.`created_at`, `users`.`updated_at`, " +
		"`accounts`.`id` AS t1_r0, `accounts`.`name` AS t1_r1, `accounts`.`plan` AS t1_r2, `accounts`.`state` AS t1_r3, `addresses`.`id` AS t2_r0, " +
		"`addresses`.`street` AS t2_r1, `addresses`.`zip` AS t2_r2, `addresses`.`city` AS t2_r3, `addresses`.`country` AS t2_r4 FROM `users` " +
		"INNER JOIN `accounts` ON `accounts`.`id` = `users`.`account_id` LEFT OUTER JOIN `addresses` ON `addresses`.`user_id` = `users`.`id` " +
		"AND `addresses`.`deleted_at` IS NULL WHERE `users`.`account_id` = 7712 AND `users`.`state` IN ('active', 'invited', 'locked') " +
		"AND `users`.`created_at` BETWEEN '2026-01-01 00:00:00.000000' AND '2026-02-01 00:00:00.000000' AND (`accounts`.`plan` = 'pro' OR " +
		"`accounts`.`trial_ends_at` > '2026-01-15 12:30:00') AND `addresses`.`country` = 'FR' GROUP BY `users`.`id` HAVING COUNT(*) > 3 " +
		"ORDER BY `users`.`created_at` DESC, `users`.`id` ASC LIMIT 50 OFFSET 100 /*application='shop',controller='users',action='index'*/"
)

// bulkInsert returns a multi-row INSERT of about size bytes, in the form of a dump or sysbench.
func bulkInsert(size int) []byte {
	var b bytes.Buffer
	b.WriteString("INSERT INTO sbtest1 (id, k, c, pad) VALUES")
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d, %d, '%0119d', '%059d')", i, i*7919%100000, i, i)
	}
	return b.Bytes()
}

func benchDigest(b *testing.B, sql []byte) {
	var d Digester
	d.Digest(sql, 0)
	b.SetBytes(int64(len(sql)))
	b.ReportAllocs()
	for b.Loop() {
		d.Digest(sql, 0)
	}
}

func BenchmarkDigest(b *testing.B) {
	b.Run("short-98B", func(b *testing.B) { benchDigest(b, []byte(shortSelect)) })
	b.Run("point-37B", func(b *testing.B) { benchDigest(b, []byte(pointSelect)) })
	b.Run("orm-1KB", func(b *testing.B) { benchDigest(b, []byte(ormSelect)) })
	b.Run("insert-2MB", func(b *testing.B) { benchDigest(b, bulkInsert(2<<20)) })
	b.Run("blob-2MB", func(b *testing.B) {
		sql := fmt.Appendf(nil, "INSERT INTO t VALUES (1, '%s')", bytes.Repeat([]byte("0123456789abcde "), 2<<16))
		benchDigest(b, sql)
	})
}

func BenchmarkSHA256(b *testing.B) {
	var d Digester
	d.Digest([]byte(shortSelect), 0)
	b.ReportAllocs()
	for b.Loop() {
		d.summed = false
		d.Sum()
	}
}

func BenchmarkCharset(b *testing.B) {
	sql := []byte(ormSelect)
	var d Digester
	b.SetBytes(int64(len(sql)))
	b.ReportAllocs()
	for b.Loop() {
		d.Digest(sql, SJIS)
	}
}

func BenchmarkWrite(b *testing.B) {
	sql := bulkInsert(2 << 20)
	var d Digester
	b.SetBytes(int64(len(sql)))
	b.ReportAllocs()
	for b.Loop() {
		d.Reset(0)
		for p := sql; len(p) > 0; {
			n := min(16<<10, len(p))
			d.Write(p[:n])
			p = p[n:]
		}
		d.Sum()
	}
}

func BenchmarkLexer(b *testing.B) {
	sql := []byte(shortSelect)
	b.SetBytes(int64(len(sql)))
	b.ReportAllocs()
	for b.Loop() {
		var l Lexer
		l.Reset(sql, 0)
		for l.Next().Kind != KindEOF {
		}
	}
}

func BenchmarkAppendRedacted(b *testing.B) {
	sql := []byte(shortSelect)
	var buf []byte
	b.SetBytes(int64(len(sql)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendRedacted(buf[:0], sql, 0)
	}
}
