{{- /* A resource is a heading of the second level, a part of one of the third. */ -}}
{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type }}

{{ if $type.GVK }}##{{ else }}###{{ end }} {{ $type.Name }}

{{ $type.Doc | replace "<" "\\<" }}
{{- with $type.SortedReferences }}

In:{{ range . }} {{ markdownRenderTypeLink . }}{{ end }}.
{{- end }}
{{- if $type.Members }}

| Field | Meaning | Rules |
| --- | --- | --- |
{{- if $type.GVK }}
| `apiVersion` *string* | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` | |
| `kind` *string* | `{{ $type.GVK.Kind }}` | |
{{- end }}
{{- range $type.Members }}
| `{{ .Name }}` *{{ markdownRenderType .Type }}* | {{ template "type_members" . }} | {{ template "rules" .Validation }} |
{{- end }}
{{- end }}
{{- if $type.EnumValues }}

| Value | Meaning |
| --- | --- |
{{- range $type.EnumValues }}
| `{{ .Name }}` | {{ template "cell" .Doc }} |
{{- end }}
{{- end }}
{{- if and $type.IsAlias (not $type.EnumValues) $type.Validation }}

A {{ markdownRenderTypeLink $type.UnderlyingType }}. Rules: {{ template "rules" $type.Validation }}.
{{- end }}
{{- end }}
{{- end -}}

{{- /* What the schema demands, without CEL expressions: the text beside says them in words. */ -}}
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

{{- /* A comment in one cell of a table: paragraphs and list items stay apart, lines are joined. */ -}}
{{- define "cell" -}}
{{- . | trim | replace "|" "\\|" | replace "<" "\\<" | replace "\n\n  - " "\n  - " | replace "\n\n" "<br />" | replace "\n  - " "<br />– " | replace "\n" " " -}}
{{- end -}}
