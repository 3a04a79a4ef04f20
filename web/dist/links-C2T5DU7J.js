import{v as t,w as n}from"./chunk-4ZBABXCC.js";function o(){return n("h1",{children:t("links")})}export{o as default};
