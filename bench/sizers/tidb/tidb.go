package tidb

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver"
)

//go:generate go run github.com/taredb/tare/sizegen .

// A Statement is the syntax tree of one SQL statement by TiDB's parser.
//
//sizegen:field github.com/pingcap/tidb/pkg/parser/charset.Encoding shared the encodings belong to the process
//sizegen:types github.com/pingcap/tidb/pkg/parser/test_driver.Datum.x = *github.com/pingcap/tidb/pkg/parser/test_driver.MyDecimal, basic
//sizegen:types ast.TableOptimizerHint.HintData = ast.CIStr, ast.HintSetVar, ast.HintTimeRange, basic
//sizegen:field ast.ExecuteStmt.BinaryArgs, ast.ExecuteStmt.PrepStmt shared only a server sets them
//sizegen:root
type Statement struct{ Tree ast.StmtNode }
