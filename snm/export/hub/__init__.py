"""A model as a folder of the Hugging Face Hub, and its transfer.

Public names: `folder.write_hub`, `folder.open_hub`, `folder.is_hub`; `card.Card`,
`card.model_card`; `transfer.HubAddress`, `transfer.pull`, `transfer.push`.
"""
