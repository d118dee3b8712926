//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// voidElements have no end tag.
var voidElements = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// references are attributes that name the ids of other elements.
var references = []string{"for", "aria-labelledby", "aria-describedby", "aria-controls", "list", "headers"}

// htmlFaults returns the problems of a page: elements that are not closed, or closed in another order than
// opened; duplicate attributes and ids; references to missing ids; inline scripts and styles; missing
// mandatory elements.
func htmlFaults(page string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if !strings.HasPrefix(page, "<!DOCTYPE html>") {
		fault("there is no doctype")
	}
	var stack []string
	ids := make(map[string]int)
	var named []string
	seen := make(map[string]int)
	heading := 0
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if err := z.Err(); err != io.EOF {
				fault("%v", err)
			}
			break
		}
		token := z.Token()
		name := token.Data
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			if !slices.Contains(stack, "svg") {
				seen[name]++ // a drawing has a separate title
			}
			attributes := make(map[string]string)
			for _, a := range token.Attr {
				if _, ok := attributes[a.Key]; ok {
					fault("<%s> has the attribute %s twice", name, a.Key)
				}
				attributes[a.Key] = a.Val
				switch {
				case a.Key == "id" && (a.Val == "" || strings.ContainsAny(a.Val, " \t\n")):
					fault("<%s> has the id %q", name, a.Val)
				case a.Key == "id":
					ids[a.Val]++
				case slices.Contains(references, a.Key):
					named = append(named, strings.Fields(a.Val)...)
				case a.Key == "style" || strings.HasPrefix(a.Key, "on"):
					fault("<%s> has the attribute %s, which the content security policy forbids", name, a.Key)
				}
			}
			switch name {
			case "script":
				if attributes["src"] == "" {
					fault("a script stands in the page")
				}
			case "style":
				fault("a style sheet stands in the page")
			case "img":
				if _, ok := attributes["alt"]; !ok {
					fault("an image has no alternative")
				}
			case "th":
				if attributes["scope"] == "" {
					fault("a <th> has no scope")
				}
			case "h1", "h2", "h3", "h4", "h5", "h6":
				level := int(name[1] - '0')
				if level > heading+1 {
					fault("<%s> follows a heading of level %d", name, heading)
				}
				heading = level
			case "html":
				if attributes["lang"] == "" {
					fault("the page has no language")
				}
			}
			if kind == html.StartTagToken && !slices.Contains(voidElements, name) {
				stack = append(stack, name)
			}
		case html.EndTagToken:
			if len(stack) == 0 || stack[len(stack)-1] != name {
				fault("</%s> closes %v", name, stack)
				if i := slices.Index(stack, name); i >= 0 {
					stack = stack[:i]
				}
				continue
			}
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) > 0 {
		fault("%v are not closed", stack)
	}
	for id, n := range ids {
		if n > 1 {
			fault("the id %s is there %d times", id, n)
		}
	}
	for _, id := range named {
		if ids[id] == 0 {
			fault("there is no id %s, which is named", id)
		}
	}
	for _, name := range []string{"html", "head", "title", "body", "main", "nav", "h1"} {
		if name != "nav" && seen[name] != 1 || seen[name] == 0 {
			fault("<%s> is there %d times", name, seen[name])
		}
	}
	return faults
}
