import{v as t,w as o}from"./chunk-4ZBABXCC.js";function u(){return o("h1",{children:t("audit")})}export{u as default};
