import{v as r,w as t}from"./chunk-4ZBABXCC.js";function o(){return t("h1",{children:r("importExport")})}export{o as default};
