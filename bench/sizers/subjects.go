package main

import (
	"unsafe"

	"github.com/taredb/tare/bench/sizers/goast"
	"github.com/taredb/tare/bench/sizers/jsonany"
	"github.com/taredb/tare/bench/sizers/k8s"
	"github.com/taredb/tare/bench/sizers/promql"
	"github.com/taredb/tare/bench/sizers/protobuf"
	"github.com/taredb/tare/bench/sizers/regexps"
	"github.com/taredb/tare/bench/sizers/texts"
	"github.com/taredb/tare/bench/sizers/tidb"
	"github.com/taredb/tare/bench/sizers/vitess"
)

func subjects() []subject {
	statements := texts.Statements(tidb.Parses)
	queries := texts.Queries()
	files := texts.GoFiles()
	patterns := texts.Patterns()
	return []subject{
		newSubject("go/ast", "goast", maker[goast.File]{
			build: func(i int) (*goast.File, error) { return goast.Parse(files(i)) },
			cost:  func(i int) int64 { return root[goast.File]() + int64(len(files(i))) },
		}),
		newSubject("TiDB's parser", "tidb", maker[tidb.Statement]{
			build:  func(i int) (*tidb.Statement, error) { return tidb.Parse(statements(i)) },
			detach: true,
			cost:   func(i int) int64 { return root[tidb.Statement]() + int64(len(statements(i))) },
		}),
		newSubject("Vitess' parser", "vitess", maker[vitess.Statement]{
			build:  func(i int) (*vitess.Statement, error) { return vitess.Parse(statements(i)) },
			detach: true,
			cost:   func(i int) int64 { return root[vitess.Statement]() + int64(len(statements(i))) },
			own:    (*vitess.Statement).VitessSize,
		}),
		newSubject("protobuf messages", "protobuf", maker[protobuf.Messages]{
			build: protobuf.New,
			cost:  protobuf.WireSize,
		}),
		newSubject("PromQL", "promql", maker[promql.Query]{
			build:  func(i int) (*promql.Query, error) { return promql.Parse(queries(i)) },
			detach: true,
			cost:   func(i int) int64 { return root[promql.Query]() + int64(len(queries(i))) },
		}),
		newSubject("Kubernetes API", "k8s", maker[k8s.Objects]{
			build: func(i int) (*k8s.Objects, error) { return k8s.Decode(texts.Pod(i), texts.Deployment(i)) },
			cost: func(i int) int64 {
				return root[k8s.Objects]() + int64(len(texts.Pod(i))+len(texts.Deployment(i)))
			},
		}),
		newSubject("encoding/json, any", "jsonany", maker[jsonany.Document]{
			build: func(i int) (*jsonany.Document, error) { return jsonany.Decode(texts.Deployment(i)) },
			cost:  func(i int) int64 { return root[jsonany.Document]() + int64(len(texts.Deployment(i))) },
		}),
		newSubject("regexp", "regexps", maker[regexps.Pattern]{
			build: func(i int) (*regexps.Pattern, error) { return regexps.Compile(patterns(i)) },
			cost:  func(i int) int64 { return root[regexps.Pattern]() + int64(len(patterns(i))) },
		}),
	}
}

// root returns the size of the root itself, which a simple cost function adds to the length of the text.
func root[T any]() int64 { return int64(unsafe.Sizeof(*new(T))) }
