package goast

import "go/ast"

//go:generate go run github.com/taredb/tare/sizegen .

// A File is the tree of one file.
//
//sizegen:types ast.Object.Decl = *ast.Field, *ast.ImportSpec, *ast.ValueSpec, *ast.TypeSpec, *ast.FuncDecl, *ast.LabeledStmt, *ast.AssignStmt, *ast.Scope
//sizegen:types ast.Object.Data = int, *ast.Scope
//sizegen:types ast.Object.Type = basic
//sizegen:root
type File struct{ Tree *ast.File }
