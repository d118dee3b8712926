package config

import (
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/spelling"
)

// A RuleAction is the effect of a rule on the statements it matches.
type RuleAction string

// The actions of rules.
const (
	RuleBlock    RuleAction = "block"     // refuse the statement
	RuleReadOnly RuleAction = "read-only" // refuse it unless it is read-only
	RuleAllow    RuleAction = "allow"     // permit it; statements that match no such rule are refused
)

// A RuleMode specifies whether a rule is enforced.
type RuleMode string

// The modes of rules.
const (
	RuleEnforce RuleMode = "enforce"
	RuleDryRun  RuleMode = "dry-run" // count and log refusals without refusing
)

// A Rule matches statements that match each of its lists; a list matches if one of its entries does.
type Rule struct {
	Name    string     `json:"name" yaml:"name"`
	Action  RuleAction `json:"action" yaml:"action"`
	Mode    RuleMode   `json:"mode,omitempty" yaml:"mode,omitempty"` // enforce when empty
	Digests []string   `json:"digests,omitempty" yaml:"digests,omitempty"`
	Tables  []string   `json:"tables,omitempty" yaml:"tables,omitempty"`
	Types   []string   `json:"types,omitempty" yaml:"types,omitempty"`
	Effects []string   `json:"effects,omitempty" yaml:"effects,omitempty"`
	Users   []string   `json:"users,omitempty" yaml:"users,omitempty"`
	Message string     `json:"message,omitempty" yaml:"message,omitempty"` // for the client

	// Place is the rule's position, "tare.yaml:12", for errors.
	Place string `json:"source" yaml:"-"`
}

const rulesHelp = "statements to refuse or allow: a list of name, action (block, read-only or allow), mode (enforce or dry-run), " +
	"any of digests, tables, types, effects and users, and the message for the client"

// decodeRules decodes the list of rules.
func decodeRules(path string, node *yaml.Node) (rules []Rule, errs []error) {
	if isNull(node) {
		return nil, nil // no list; an empty one is not nil
	}
	if node.Kind != yaml.SequenceNode {
		return nil, []error{fmt.Errorf("%s:%d: rules: want a list", path, node.Line)}
	}
	rules = []Rule{}
	for _, item := range node.Content {
		r, wrong := decodeRule(path, resolve(item))
		if slices.ContainsFunc(rules, func(other Rule) bool { return other.Name == r.Name }) {
			wrong = append(wrong, fmt.Errorf("%s: rule %q is named like another", r.Place, r.Name))
		}
		rules = append(rules, r)
		errs = append(errs, wrong...)
	}
	return rules, errs
}

func decodeRule(path string, node *yaml.Node) (Rule, []error) {
	r := Rule{Place: fmt.Sprintf("%s:%d", path, node.Line)}
	pairs, errs := walk(path, node)
	if len(errs) > 0 {
		return r, errs
	}
	for _, p := range pairs {
		var err error
		switch p.key {
		case "name":
			r.Name, err = scalar(p)
		case "action":
			var action string
			action, err = scalar(p)
			r.Action = RuleAction(action)
			if err == nil && r.Action != RuleBlock && r.Action != RuleReadOnly && r.Action != RuleAllow {
				err = p.errorf("action: want block, read-only or allow, not %q", action)
			}
		case "mode":
			var mode string
			mode, err = scalar(p)
			r.Mode = RuleMode(mode)
			if err == nil && r.Mode != RuleEnforce && r.Mode != RuleDryRun {
				err = p.errorf("mode: want enforce or dry-run, not %q", mode)
			}
		case "message":
			r.Message, err = scalar(p)
		case "digests":
			r.Digests, err = list(p)
		case "tables":
			r.Tables, err = list(p)
		case "types":
			r.Types, err = list(p)
		case "effects":
			r.Effects, err = list(p)
		case "users":
			r.Users, err = list(p)
		default:
			err = p.errorf("unknown key %q in a rule%s", p.key,
				spelling.Suggest(p.key, []string{"name", "action", "mode", "digests", "tables", "types", "effects", "users", "message"}))
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	switch {
	case len(errs) > 0:
	case r.Name == "":
		errs = append(errs, fmt.Errorf("%s: a rule needs a name", r.Place))
	case r.Action == "":
		errs = append(errs, fmt.Errorf("%s: rule %q needs an action: block, read-only or allow", r.Place, r.Name))
	case len(r.Digests)+len(r.Tables)+len(r.Types)+len(r.Effects)+len(r.Users) == 0:
		errs = append(errs, fmt.Errorf("%s: rule %q matches every statement: give it digests, tables, types, effects or users", r.Place, r.Name))
	}
	return r, errs
}

// A RuleChanges names the rules that differ between two lists.
type RuleChanges struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
}

// CompareRules returns the changes from the rules before to those after. A rule that was only moved is a changed one if
// its position among the rules of both lists differs.
func CompareRules(before, after []Rule) (c RuleChanges) {
	var kept [2][]Rule // rules of both lists, in the order of each
	for _, r := range before {
		if slices.ContainsFunc(after, r.sameName) {
			kept[0] = append(kept[0], r)
		} else {
			c.Removed = append(c.Removed, r.Name)
		}
	}
	for _, r := range after {
		if slices.ContainsFunc(before, r.sameName) {
			kept[1] = append(kept[1], r)
		} else {
			c.Added = append(c.Added, r.Name)
		}
	}
	for i, r := range kept[1] {
		old := kept[0][slices.IndexFunc(kept[0], r.sameName)]
		old.Place = r.Place
		if !reflect.DeepEqual(old, r) || kept[0][i].Name != r.Name {
			c.Changed = append(c.Changed, r.Name)
		}
	}
	return c
}

func (r *Rule) sameName(other Rule) bool { return r.Name == other.Name }

func scalar(p pair) (string, error) {
	if p.value.Kind != yaml.ScalarNode || p.value.Value == "" {
		return "", p.errorf("%s: want a text", p.key)
	}
	return p.value.Value, nil
}

func list(p pair) ([]string, error) {
	if p.value.Kind != yaml.SequenceNode || len(p.value.Content) == 0 {
		return nil, p.errorf("%s: want a list of texts", p.key)
	}
	var texts []string
	for _, item := range p.value.Content {
		text, err := scalar(pair{key: p.key, value: resolve(item), place: p.place})
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}
