package promapi

import "github.com/prometheus/prometheus/promql/parser"

// formatQuery responds with an expression in canonical form.
func (c *call) formatQuery() *Error {
	c.seen.Query = c.form.Get("query")
	if err := boundExpr(c.seen.Query, maxNestedText); err != nil {
		return badParam("query", err)
	}
	release, e := c.admit(nil)
	if e != nil {
		return e
	}
	defer release()
	expr, err := c.api.o.Parser.ParseExpr(c.seen.Query)
	if err != nil {
		return badParam("query", err)
	}
	c.startResponse()
	c.out.buf = appendText(c.out.buf, expr.Pretty(0))
	c.finishResponse(nil)
	return nil
}

// parseQuery responds with the syntax tree of an expression.
func (c *call) parseQuery() *Error {
	c.seen.Query = c.form.Get("query")
	err := CheckExpr(c.seen.Query)
	if err != nil {
		return badParam("query", err)
	}
	release, e := c.admit(nil)
	if e != nil {
		return e
	}
	defer release()
	var expr parser.Expr
	if e := c.parse(nil, func() { expr, err = c.api.o.Parser.ParseExpr(c.seen.Query) }); e != nil {
		return e
	}
	if err != nil {
		return badParam("query", err)
	}
	c.startResponse()
	b, err := appendExpr(c.out.buf, expr)
	if err != nil {
		return &Error{Type: Internal, Err: err}
	}
	c.out.buf = b
	c.finishResponse(nil)
	return nil
}
