package sqldigest_test

import (
	"fmt"

	"github.com/taredb/tare/mysql/sqldigest"
)

func ExampleDigester_Digest() {
	var d sqldigest.Digester
	a := d.Digest([]byte("select email from users where id in (1, 2, 3) -- first"), 0)
	fmt.Printf("%s\n", d.Text())
	b := d.Digest([]byte("SELECT `email`\nFROM users WHERE id IN (42)"), 0)
	fmt.Println(a, a == b)
	// Output:
	// SELECT `email` FROM `users` WHERE `id` IN (...)
	// 025feb846b8fd7f89c4309b2d2c2aa6d true
}

func ExampleDigester_Write() {
	var d sqldigest.Digester
	d.Reset(0)
	for _, piece := range []string{"INSERT INTO t VALUES (1, 'it''", "s'), (2, ", "NULL)"} {
		d.Write([]byte(piece))
	}
	sum := d.Sum()
	fmt.Printf("%s\n", d.Text())
	fmt.Println(sum == d.Digest([]byte("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')"), 0))
	// Output:
	// INSERT INTO `t` VALUES (...), ...
	// true
}

func ExampleDigester_Tags() {
	var d sqldigest.Digester
	d.Digest([]byte("SELECT 1 /*action='index',route='%2Fusers'*/"), 0)
	for k, v := range d.Tags() {
		fmt.Printf("%s: %s\n", k, v)
	}
	// Output:
	// action: index
	// route: /users
}

func ExampleDigester_Divergent() {
	var d sqldigest.Digester
	for _, sql := range []string{"select '' from t", "select /*!99999 '*/ 1; delete from t -- ' */ from t"} {
		fmt.Println(d.Digest([]byte(sql), 0), d.Divergent())
	}
	// Output:
	// 0229f1b2644929d90b049ee6d4384cbe false
	// 0229f1b2644929d90b049ee6d4384cbe true
}

func ExampleLexer() {
	update := sqldigest.LookupKeyword("UPDATE")
	sql := []byte("UPDATE t SET a = 'x'")
	var l sqldigest.Lexer
	l.Reset(sql, 0)
	for t := l.NextSignificant(); t.Kind != sqldigest.KindEOF; t = l.NextSignificant() {
		fmt.Println(t.Kind, string(sql[t.Start:t.End]), t.Keyword == update)
	}
	// Output:
	// Keyword UPDATE true
	// Ident t false
	// Keyword SET false
	// Ident a false
	// Operator = false
	// String 'x' false
}

func ExampleAppendRedacted() {
	sql := []byte("select * from users where email = 'a@b.c' and born > DATE '1990-01-01' limit 5")
	fmt.Printf("%s\n", sqldigest.AppendRedacted(nil, sql, 0))
	// Output:
	// select * from users where email = ? and born > ? limit ?
}

func ExampleParse() {
	d, err := sqldigest.Parse("000102030405060708090a0b0c0d0e0f")
	fmt.Println(d, err)
	_, err = sqldigest.Parse("0001")
	fmt.Println(err)
	// Output:
	// 000102030405060708090a0b0c0d0e0f <nil>
	// parse digest "0001": 4 characters instead of 32
}
