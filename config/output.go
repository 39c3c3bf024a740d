package config

import (
	"encoding/json"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"
)

// WriteYAML writes what v is as JSON as YAML: the same fields in the same order.
func WriteYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil { // JSON is YAML
		return fmt.Errorf("write the answer as YAML: %w", err)
	}
	blockStyle(&doc)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return fmt.Errorf("write the answer as YAML: %w", err)
	}
	return e.Close()
}

// blockStyle lets the encoder lay a node out; strings that would read as something
// else keep their quotes by their tag.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		blockStyle(c)
	}
}
