package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes sections as a configuration file, each value with its origin as a comment. Options that have no effect with
// the other values are comments as a whole. Secrets are masked, so a file with secrets cannot be loaded again completely.
func WriteYAML(w io.Writer, sections []*Set) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range sections {
		section := &yaml.Node{Kind: yaml.MappingNode}
		var comment []string // of the next option that has an effect
		for _, o := range s.options {
			if !o.InFile() {
				continue
			}
			key, value := textNode(o.Name), o.node()
			value.LineComment = o.origin.String()
			if without, unused := o.unused(); unused && o.Text() != "" {
				value.LineComment += "; no effect " + without
				line, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, value}})
				if err != nil {
					return fmt.Errorf("print %s: %w", o.Name, err)
				}
				comment = append(comment, "# "+strings.TrimSuffix(string(line), "\n"))
				continue
			}
			key.HeadComment, comment = strings.Join(comment, "\n"), nil
			section.Content = append(section.Content, key, value)
		}
		if last := len(section.Content) - 2; last >= 0 {
			section.Content[last].FootComment = strings.Join(comment, "\n")
		}
		for _, b := range s.blocks {
			value := &yaml.Node{}
			if err := value.Encode(b.value()); err != nil {
				return fmt.Errorf("print %s: %w", b.name, err)
			}
			section.Content = append(section.Content, textNode(b.name), value)
		}
		root.Content = append(root.Content, textNode(s.Name), section)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// node returns the value as written by hand: numbers and booleans without quotes.
func (o *Option) node() *yaml.Node {
	node := textNode(o.Text())
	_, err := strconv.ParseUint(node.Value, 10, 64)
	switch {
	case err == nil:
		node.Tag = "!!int"
	case o.Kind == "bool":
		node.Tag = "!!bool"
	}
	return node
}

// textNode returns a scalar; the encoder quotes texts that would be parsed as another type.
func textNode(text string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(text)
	return node
}

// jsonSection is the stable output format of WriteJSON.
type jsonSection struct {
	Name    string         `json:"name"`
	Options []jsonOption   `json:"options"`
	Blocks  map[string]any `json:"blocks"`
}

type jsonOption struct {
	Name   string     `json:"name"`
	Kind   string     `json:"kind"`
	Value  string     `json:"value"`
	Origin OriginKind `json:"origin"`
	Source string     `json:"source"`
}

// WriteJSON writes sections as
//
//	{"sections": [{"name": "serve",
//	  "options": [{"name": "listen", "kind": "address", "value": "127.0.0.1:3316", "origin": "file", "source": "tare.yaml:2"}, …],
//	  "blocks": {"rules": [{"name": …, "action": …, "source": "tare.yaml:9", …}]}}]}
//
// Future versions only add keys. A value is the text that a flag would accept, secrets masked; origin is
// default, file, env or flag; source is empty for a default.
func WriteJSON(w io.Writer, sections []*Set) error {
	document := struct {
		Sections []jsonSection `json:"sections"`
	}{}
	for _, s := range sections {
		section := jsonSection{Name: s.Name, Blocks: map[string]any{}}
		for _, o := range s.options {
			section.Options = append(section.Options, jsonOption{o.Name, o.Kind, o.Text(), o.origin.Kind, o.origin.Place})
		}
		for _, b := range s.blocks {
			value := b.value()
			if v := reflect.ValueOf(value); v.Kind() == reflect.Slice && v.IsNil() {
				value = []any{} // an empty list, not null
			}
			section.Blocks[b.name] = value
		}
		document.Sections = append(document.Sections, section)
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// WriteMarkdown writes the reference of all options. Those that several commands have with the same meaning come first.
func WriteMarkdown(w io.Writer, sections []*Set) error {
	var out bytes.Buffer
	type use struct{ command, without string } // without: the reason why the command does not use the option
	uses := make(map[string][]use)             // by the option's line
	for _, s := range sections {
		for _, o := range s.options {
			line := markdown(o)
			uses[line] = append(uses[line], use{s.Name, noEffect(o)})
		}
	}
	commands := func(all []use) string {
		names := make([]string, len(all))
		for i, u := range all {
			names[i] = u.command
		}
		return strings.Join(names, ", ")
	}
	// needs returns what an option of several commands needs, and which of them need it, unless all do.
	needs := func(o *Option) string {
		all := uses[markdown(o)]
		some := slices.DeleteFunc(slices.Clone(all), func(u use) bool { return u.without == "" })
		others := slices.DeleteFunc(slices.Clone(all), func(u use) bool { return u.without != "" })
		switch {
		case len(some) == 0 || len(others) == 0:
			return noEffect(o)
		case len(some) > len(others):
			return some[0].without + ", except in " + commands(others)
		}
		return some[0].without + ", in " + commands(some)
	}
	several := func(o *Option) bool {
		all := uses[markdown(o)]
		first := slices.IndexFunc(all, func(u use) bool { return u.without != "" })
		return len(all) > 1 && (noEffect(o) == "" || all[first].without == noEffect(o))
	}
	out.WriteString("## Options of several commands\n")
	var order []string // lists of commands
	shared := make(map[string][]*Option)
	for _, s := range sections {
		for _, o := range s.options {
			in := commands(uses[markdown(o)])
			if !several(o) || slices.ContainsFunc(shared[in], func(other *Option) bool { return other.Name == o.Name }) {
				continue
			}
			if shared[in] == nil {
				order = append(order, in)
			}
			shared[in] = append(shared[in], o)
		}
	}
	for _, in := range order {
		fmt.Fprintf(&out, "\nOf %s:\n\n", in)
		writeOptions(&out, shared[in], needs)
	}
	for _, s := range sections {
		fmt.Fprintf(&out, "\n## tare %s\n\n", s.Name)
		writeOptions(&out, slices.DeleteFunc(slices.Clone(s.options), several), noEffect)
		for _, b := range s.blocks {
			fmt.Fprintf(&out, "\nIn the file only: `%s`, %s.\n", b.name, b.help)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// writeOptions writes a list of options, those that need the same together, where the first of them is.
func writeOptions(out *bytes.Buffer, options []*Option, need func(*Option) string) {
	same := make(map[string][]*Option)
	for _, o := range options {
		same[need(o)] = append(same[need(o)], o)
	}
	for _, o := range options {
		needs := need(o)
		switch alike := same[needs]; {
		case needs == "":
			fmt.Fprintf(out, "- %s\n", markdown(o))
		case len(alike) == 1:
			fmt.Fprintf(out, "- %s. No effect %s\n", markdown(o), needs)
		case alike[0] == o:
			fmt.Fprintf(out, "- No effect %s:\n", needs)
			for _, o := range alike {
				fmt.Fprintf(out, "  - %s\n", markdown(o))
			}
		}
	}
}

// markdown returns the flag of an option with the form of its value, its default and its meaning.
func markdown(o *Option) string {
	flag, def := o.Name, ""
	if o.Kind != "bool" {
		flag += " " + o.Kind
	}
	if o.Default != "" && (o.Kind != "bool" || o.Default != "false") {
		def = " (`" + o.Default + "`)"
	}
	return fmt.Sprintf("`--%s`%s: %s", flag, def, o.Help)
}

// noEffect returns what an option needs: "without --bucket".
func noEffect(o *Option) string {
	var all []string
	for _, n := range o.needs {
		without, _, _ := strings.Cut(n.without, ": ") // the reason is for errors
		all = append(all, without)
	}
	return strings.Join(all, ", or ")
}
