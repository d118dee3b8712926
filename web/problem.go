package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// A problem is an error that is displayed as a page: a description, and advice.
type problem struct {
	Status int
	What   string // as a sentence
	Try    []string
}

// Error implements error.
func (p *problem) Error() string { return p.What }

// badRequest returns the problem of an invalid request.
func badRequest(err error, try ...string) *problem {
	return &problem{Status: http.StatusBadRequest, What: sentence(err.Error()), Try: try}
}

// notFound returns the problem of a missing object.
func notFound(what string, try ...string) *problem {
	return &problem{Status: http.StatusNotFound, What: sentence(what), Try: try}
}

// sentence formats an error's text as a sentence.
func sentence(s string) string {
	if s == "" {
		return s
	}
	if s[0] >= 'a' && s[0] <= 'z' {
		s = string(s[0]-'a'+'A') + s[1:]
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// problemOf converts any error to a problem.
func problemOf(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{
			Status: http.StatusGatewayTimeout, What: "The response took too long.",
			Try: []string{"Choose a shorter range.", "Try again shortly: other queries may be running."},
		}
	}
	return &problem{
		Status: http.StatusInternalServerError, What: sentence(err.Error()),
		Try: []string{"Try again shortly.", "Check the server's log and /-/ready."},
	}
}

// fail responds with a problem: a page for browsers, text for other clients.
func (d *renderer) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		text := []string{p.What}
		for _, t := range p.Try {
			text = append(text, "Try: "+t)
		}
		plain(w, p.Status, strings.Join(text, "\n"))
		return
	}
	v := &view{now: d.now()}
	v.setAccount(r)
	d.render(w, r, &page{template: "problem", title: http.StatusText(p.Status), fixed: true}, v, p, p.Status)
}
