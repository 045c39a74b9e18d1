{{- /* Resources are second-level headings, their parts third-level headings. */ -}}
{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type }}

{{ if $type.GVK }}##{{ else }}###{{ end }} {{ $type.Name }}

{{ $type.Doc | replace "<" "\\<" }}
{{- with $type.SortedReferences }}

Appears in:{{ range $i, $reference := . }}{{ if $i }},{{ end }} {{ markdownRenderTypeLink $reference }}{{ end }}.
{{- end }}
{{- if $type.Members }}

| Field | Description | Rules |
| --- | --- | --- |
{{- if $type.GVK }}
| `apiVersion` *string* | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` | |
| `kind` *string* | `{{ $type.GVK.Kind }}` | |
{{- end }}
{{- range $type.Members }}
| `{{ .Name }}` *{{ template "field_type" .Type }}* | {{ template "type_members" . }} | {{ template "rules" .Validation }} |
{{- end }}
{{- end }}
{{- if $type.EnumValues }}

| Value | Description |
| --- | --- |
{{- range $type.EnumValues }}
| `{{ .Name }}` | {{ template "cell" .Doc }} |
{{- end }}
{{- end }}
{{- if and $type.IsAlias (not $type.EnumValues) $type.Validation }}

{{ $underlying := markdownRenderType $type.UnderlyingType -}}
{{ if hasPrefix "object" $underlying }}An{{ else }}A{{ end }} {{ $underlying }}. Rules: {{ template "rules" $type.Validation }}.
{{- end }}
{{- end }}
{{- end -}}

{{- /* Go aliases, such as DNSSubdomain, have no section. Their rules are those of the field. */ -}}
{{- define "field_type" -}}
{{- markdownRenderType . | replace "[DNSSubdomain](#dnssubdomain)" "string" -}}
{{- end -}}

{{- /* The rules of the schema, without CEL expressions, which the descriptions explain. */ -}}
{{- define "rules" -}}
{{- $rules := list -}}
{{- range . -}}
{{- if hasPrefix "Required:" . -}}{{ $rules = append $rules "required" -}}
{{- else if or (hasPrefix "Optional:" .) (contains "XValidation:" .) (hasPrefix "Type:" .) -}}
{{- else -}}{{ $rules = append $rules (. | replace "|" "\\|" | replace "<" "\\<") -}}
{{- end -}}
{{- end -}}
{{- $rules | join "<br />" -}}
{{- end -}}

{{- /* A comment in a table cell: lines are joined, paragraphs and list items are separated. */ -}}
{{- define "cell" -}}
{{- . | trim | replace "|" "\\|" | replace "<" "\\<" | replace "\n\n  - " "\n  - " | replace "\n\n" "<br />" | replace "\n  - " "<br />– " | replace "\n" " " -}}
{{- end -}}
