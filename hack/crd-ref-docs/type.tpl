{{- /* Resources are second-level headings, their parts third-level headings. Only structs have a
section: the fields describe the rules and values of other types. */ -}}
{{- define "type" -}}
{{- $type := . -}}
{{- if and (markdownShouldRenderType $type) (not $type.IsAlias) }}

{{ if $type.GVK }}##{{ else }}###{{ end }} {{ $type.Name }}
{{- if not (regexMatch "^[A-Za-z]+ (is the observed state of an?|defines the desired state of an?) [A-Za-z]+\\.$" $type.Doc) }}

{{ $type.Doc | replace "<" "\\<" }}
{{- end }}
{{- if $type.Members }}
{{ range $type.Members }}{{ if ne .Name "metadata" }}
- `{{ .Name }}` (*{{ template "field_type" .Type }}*{{ if has "Required: {}" .Validation }}, **required**{{ end }}): {{ template "field_doc" . }}
{{- end }}{{ end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* An alias is shown as its underlying type. The kinds are those of crd-ref-docs: 3 is a
map, 4 a pointer, and 5 a slice. */ -}}
{{- define "field_type" -}}
{{- if eq .Name "Duration" -}}duration
{{- else if and .IsAlias (not .Imported) -}}{{ template "field_type" .UnderlyingType }}
{{- else if eq .Name "Time" -}}time
{{- else if or (eq .Name "DNSSubdomain") (eq .Name "LabelSelectorOperator") -}}string
{{- else if eq .Kind 3 -}}map
{{- else if eq .Kind 4 -}}{{ template "field_type" .UnderlyingType }}
{{- else if eq .Kind 5 -}}{{ template "field_type" .UnderlyingType }} array
{{- else -}}{{ markdownRenderType . }}
{{- end -}}
{{- end -}}
